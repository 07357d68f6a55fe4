"""Files that were made to break the reader: every one is refused by name, and soon."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from quantflow.calibration.npz_file import read_npz
from quantflow.errors import QuantflowError
from quantflow.evaluation.dumps import open_dump
from tests.evaluation.test_dumps import refusal, write_listing
from tests.graph.models import rand


def npy(array: np.ndarray, shape: str | None = None) -> bytes:
    """An .npy file; with the text of another shape in its header, of the same length."""
    stream = BytesIO()
    np.save(stream, array)
    data = stream.getvalue()
    if shape is None:
        return data
    size = 10 + int.from_bytes(data[8:10], "little")
    old = str(array.shape)
    header = data[10:size].replace(old.encode(), shape.encode()).rstrip()
    return data[:10] + header.ljust(size - 11) + b"\n" + data[size:]


def archive(path: Path, name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr(name, data)
    return bytearray(path.read_bytes())


def set_flag(path: Path) -> None:
    data = archive(path, "m.npy", npy(rand(8)))
    for magic, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(magic) + offset] |= 1
    path.write_bytes(data)


def set_method(path: Path) -> None:
    data = archive(path, "m.npy", npy(rand(8)))
    for magic, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        data[data.index(magic) + offset] = 77
    path.write_bytes(data)


def damage(method: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = archive(path, "m.npy", npy(rand(500, seed=1)), method)
        data[900:940] = bytes(40)
        path.write_bytes(data)

    return make


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("m.npy", npy(rand(8)))
        with pytest.warns(UserWarning, match="Duplicate"):
            out.writestr("m.npy", npy(rand(9)))


HOSTILE: dict[str, Callable[[Path], object]] = {
    "too much declared": lambda p: archive(p, "m.npy", npy(rand(8), "(999999999999,)")),
    "more stored": lambda p: archive(p, "m.npy", npy(rand(8)) + bytes(10**6)),
    "negative": lambda p: archive(p, "m.npy", npy(rand(8), "(-8,)")),
    "text": lambda p: archive(p, "m.txt", b"text"),
    "no array": lambda p: archive(p, "m.npy", b"text that is no array"),
    "folder": lambda p: archive(p, "m/", b""),
    "pickle": lambda p: archive(p, "m.pkl", b"\x80\x04K\x01."),
    "objects": lambda p: np.savez(p, m=np.array([{}], dtype=object)),
    "encrypted": set_flag,
    "method": set_method,
    "zlib": damage(zipfile.ZIP_DEFLATED),
    "lzma": damage(zipfile.ZIP_LZMA),
    "bz2": damage(zipfile.ZIP_BZIP2),
    "stored": damage(zipfile.ZIP_STORED),
    "nested": lambda p: archive(
        p, "m.npy", b"\x93NUMPY\1\0" + (5001).to_bytes(2, "little") + b"-" * 5000 + b"1"
    ),
    "twice": twice,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_member_that_is_no_sound_array_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.npz"
    HOSTILE[kind](path)
    text = refusal(tmp_path)
    assert "a.npz" in text and "'m" in text and len(text) < 700
    with pytest.raises(QuantflowError, match="QF302") as error:
        read_npz([path])
    assert "'m" in str(error.value) and "a.npz" in str(error.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("array", [rand(3, 4), rand(3, 4).T, np.zeros((0, 3)), np.float64(1)])
def test_sound_members_are_read(tmp_path: Path, method: int, array: np.ndarray) -> None:
    archive(tmp_path / "a.npz", "m.npy", npy(np.asanyarray(array)), method)
    dump = open_dump(tmp_path)
    np.testing.assert_array_equal(dump.read("m"), array)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "dump.json"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert f"{name} is no regular file" in refusal(tmp_path)


def test_a_directory_called_dump_json_and_a_loop_of_links_are_said(tmp_path: Path) -> None:
    (tmp_path / "d" / "dump.json").mkdir(parents=True)
    assert "dump.json is a directory" in refusal(tmp_path / "d")
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "a.npy").symlink_to("a.npy")
    assert "a.npy" in refusal(tmp_path / "l")


def test_a_nested_header_and_a_name_that_is_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    header = b"-" * 5000 + b"1\n"
    data = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
    (tmp_path / "h" / "a.npy").write_bytes(data)
    assert "nested too deep" in refusal(tmp_path / "h")
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / os.fsdecode(b"\xff.npy")).write_bytes(npy(rand(3)))
    refusal(tmp_path / "n").encode()
    root = tmp_path / os.fsdecode(b"\xfe")
    root.mkdir()
    (root / "a.npy").write_bytes(npy(rand(3)))
    refusal(root).encode()


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("Module.a.L.forward.0", "\ud800.npy"),
        ("Module.a.L.forward.0", "x" * 5000 + ".npy"),
        ("Module.a.L.forward.0", "x/" * 5000 + ".npy"),
        ("Module.a.L.forward.0", "x" * 5000 + ".pt"),
        ("Module.\ud800.L.forward.0", "a.npy"),
        (f"Module.a.L.forward.{'9' * 5000}", "a.npy"),
        (f"Module.{'a' * 5000}.L.forward.0", "a.npy"),
    ],
)
def test_names_of_msprobe_that_no_file_can_have_are_refused(
    tmp_path: Path, key: str, file: str
) -> None:
    write_listing(tmp_path, {key: {"output": [{"data_name": file}]}})
    np.save(tmp_path / "a.npy", rand(3))
    text = refusal(tmp_path)
    assert len(text.encode()) < 1000


@pytest.mark.parametrize("folder", ["\ud800", "x" * 5000, "a\0b"])
def test_a_folder_that_cannot_be_is_not_followed(tmp_path: Path, folder: str) -> None:
    write_listing(tmp_path, {"Module.a.L.forward.0": {"output": [{"data_name": "b.npy"}]}}, folder)
    assert len(refusal(tmp_path).encode()) < 1000


def test_two_keys_of_one_module_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", rand(3))
    entry = {"output": [{"data_name": "a.npy"}]}
    write_listing(tmp_path, {"Module.a.L.forward.0": entry, "Module.a.M.forward.0": entry})
    assert "two tensors are called 'a'" in refusal(tmp_path)
    pair = '"Module.a.L.forward.0": {"output": [{"data_name": "a.npy"}]}'
    (tmp_path / "dump.json").write_text(f'{{"data": {{{pair}, {pair}}}}}')
    assert "is there twice" in refusal(tmp_path)
