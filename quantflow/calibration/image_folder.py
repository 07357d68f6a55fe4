"""Records from a directory of pictures; each is decoded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from quantflow.errors import fail


@dataclass(frozen=True)
class ImageRecords(Sequence[Mapping[str, Any]]):
    """Pictures as records ``{"image": PIL.Image.Image, "label": str}``.

    The label is the name of the directory that holds the picture.
    """

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> ImageRecords: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | ImageRecords:
        if isinstance(index, slice):
            return ImageRecords(self.paths[index])
        path = self.paths[index]
        return {"image": _decode(path), "label": path.parent.name}


def read_image_folders(directories: Sequence[Path]) -> ImageRecords:
    """The pictures below some directories, in order of their paths; other files are passed over."""
    from PIL import Image

    suffixes = set(Image.registered_extensions())
    return ImageRecords(
        tuple(
            path
            for directory in directories
            for path in sorted(directory.rglob("*"))
            if path.suffix.lower() in suffixes and path.is_file()
        )
    )


def _decode(path: Path) -> Any:
    from PIL import Image

    try:
        image = Image.open(path)
        image.load()
    except Exception as error:
        fail("QF302", f"not a readable picture: {error}", where=str(path))
    return image
