"""The run directory: one folder a stage, each with a manifest, replaced as a whole.

A stage writes into ``NAME.partial``; the finished folder is moved to ``NAME`` last, after the
former one was moved away, so a folder without a suffix is always complete. Its `stage.json` names
what it was made from; a stage whose inputs are the same is not run again, and one that reads an
artifact made from something else refuses it by name.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.artifacts.record import Record
from quantflow.artifacts.timings import TIMINGS, read_entries
from quantflow.errors import QuantflowError, fail

MANIFEST = "stage.json"
JOURNAL = "journal.jsonl"
"""What a stage wrote down on the way, so that it goes on after a kill; gone when it is finished."""
FINISHED = "finished"
"""Folder of what a stage finished on the way, as large files; the stage removes it at its end."""
EDITABLE = {"30_sweep": ("plan.json",)}
"""Files that a person may change, by stage: they are no part of its digest, and whoever reads them
names them among its own inputs."""

_ATTEMPT = ".attempt"
"""Digest of what an unfinished stage is made from."""

_BESIDE = ("summary.json", "timings.json", "provenance.json", "report.html")
"""Files that lie beside the stages."""

_UNFINISHED = (JOURNAL, _ATTEMPT)
"""Files that only an unfinished stage has. They go last, so that no kill loses the journal."""


class StageManifest(Record):
    """`stage.json`.

    Attributes:
        stage: name of the folder.
        version: version of quantflow that wrote it.
        inputs: digest of everything the stage read, by name.
        outputs: digest of every file it wrote, by path inside the folder.
    """

    stage: str
    version: str
    inputs: dict[str, str]
    outputs: dict[str, str]

    @property
    def digest(self) -> str:
        """Digest of the stage's outputs, which the next stage names as its input."""
        editable = EDITABLE.get(self.stage, ())
        fixed = {name: digest for name, digest in self.outputs.items() if name not in editable}
        return value_digest(fixed)


class RunDirectory:
    """One run's results."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, stage: str) -> Path:
        """Where a finished stage's files are."""
        return self.root / stage

    def manifest(self, stage: str) -> StageManifest | None:
        """The manifest of a finished stage, or None."""
        self._finish_move(stage)
        path = self.folder(stage) / MANIFEST
        return StageManifest.read(path) if path.exists() else None

    def is_current(self, stage: str, version: str, inputs: Mapping[str, str]) -> bool:
        """Whether the stage is finished, undamaged and was made from exactly `inputs`."""
        try:
            manifest = self.manifest(stage)
        except QuantflowError:  # a damaged manifest: the stage runs again
            return False
        return (
            manifest is not None
            and manifest.version == version
            and manifest.inputs == dict(inputs)
            and self._damaged(stage, manifest) is None
        )

    def require(self, stage: str, command: str) -> StageManifest:
        """The manifest of a stage that must be finished and undamaged.

        Args:
            stage: name of its folder.
            command: the command that makes it.

        Raises:
            QuantflowError: QF404 when it has not run, QF405 when a file was changed since.
        """
        manifest = self.manifest(stage)
        if manifest is None:
            fail(
                "QF404",
                f"{stage} is not there yet",
                where=str(self.folder(stage)),
                fix=f"run `{command}` first",
            )
        damaged = self._damaged(stage, manifest)
        if damaged is not None:
            fail(
                "QF405",
                f"{stage}/{damaged} is not what the stage wrote",
                where=str(self.folder(stage) / damaged),
                fix=f"rerun `{command} --force`",
            )
        return manifest

    @contextmanager
    def writing(
        self, stage: str, version: str, inputs: Mapping[str, str], *, afresh: bool = False
    ) -> Generator[Path]:
        """A folder to write a stage into; it becomes the stage's folder at the end.

        It is empty, unless an earlier attempt at the very same work was interrupted: then it holds
        the journal or `FINISHED` that the attempt left, if it is not to be done `afresh`.
        """
        partial, former = self._partial(stage), self._former(stage)
        shutil.rmtree(former, ignore_errors=True)
        if afresh:
            shutil.rmtree(partial, ignore_errors=True)
        attempt = value_digest([version, dict(inputs)])
        _clear(partial, keep=attempt)
        try:
            yield partial
        except OSError:  # on a full disk, what is half done is in the way
            with suppress(OSError):
                _clear(partial, keep=attempt)
            raise
        outputs = {
            path.relative_to(partial).as_posix(): file_digest(path)
            for path in sorted(partial.rglob("*"))
            if path.is_file() and path.relative_to(partial).as_posix() not in _UNFINISHED
        }
        manifest = StageManifest(stage=stage, version=version, inputs=dict(inputs), outputs=outputs)
        manifest.write(partial / MANIFEST)
        if self.folder(stage).exists():
            self.folder(stage).rename(former)
        partial.rename(self.folder(stage))
        self._finish_move(stage)

    def discard(self, stage: str) -> bool:
        """Remove a stage's result and what an unfinished attempt at it left.

        Returns:
            Whether there was a result.
        """
        shutil.rmtree(self._partial(stage), ignore_errors=True)
        former = self._former(stage)
        shutil.rmtree(former, ignore_errors=True)
        there = self.folder(stage).exists()
        if there:  # moved first, so that a kill leaves no half of a folder
            self.folder(stage).rename(former)
            shutil.rmtree(former)
        return there

    def drop_attempt(self, stage: str) -> None:
        """Remove what an attempt under another configuration left unfinished."""
        shutil.rmtree(self._partial(stage), ignore_errors=True)

    def keep_edits(self, stage: str) -> list[Path]:
        """Copy files that a person edited out of a stage's folder, before the stage runs anew.

        Returns:
            The copies, ``<stage>.edited-<file>`` beside the folder.
        """
        copies = self.edits(stage)
        for name, copy in copies.items():
            write_atomically(copy, (self.folder(stage) / name).read_bytes())
        return list(copies.values())

    def edits(self, stage: str) -> dict[str, Path]:
        """Files in a stage's folder that a person edited, and where `keep_edits` copies them."""
        try:
            manifest = self.manifest(stage)
        except QuantflowError:  # a damaged manifest cannot tell what was edited: keep it all
            manifest = None
        written = manifest.outputs if manifest is not None else {}
        files = {name: self.folder(stage) / name for name in EDITABLE.get(stage, ())}
        return {
            name: self.root / f"{stage}.edited-{name}"
            for name, file in files.items()
            if file.is_file() and file_digest(file) != written.get(name)
        }

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the run directory; a second process that wants it is refused with QF406."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / ".lock").open("w")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            what = f"nothing can be written to the run directory: {reason}"
            fail("QF604", what, where=str(self.root), fix="choose another run.directory")
        with lock as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                fail(
                    "QF406",
                    "another quantflow process works in this run directory",
                    where=str(self.root),
                    fix="wait for it, or choose another run.directory",
                )
            for name in _BESIDE:
                for half in self.root.glob(f".{name}.????????"):  # of a write that was killed
                    half.unlink(missing_ok=True)
            yield

    def record_time(self, stage: str, seconds: float) -> None:
        """Note in `timings.json` how long a stage took, in seconds."""
        times = read_entries(self.root)
        times[stage] = {"seconds": round(seconds, 3), "finished": time.strftime("%FT%T%z")}
        text = json.dumps(times, indent=1, sort_keys=True) + "\n"
        write_atomically(self.root / TIMINGS, text.encode())

    def _partial(self, stage: str) -> Path:
        return self.root / f"{stage}.partial"

    def _former(self, stage: str) -> Path:
        return self.root / f"{stage}.former"

    def _finish_move(self, stage: str) -> None:
        """Finish a replacement that a kill interrupted."""
        partial = self._partial(stage)
        if not self.folder(stage).exists() and (partial / MANIFEST).exists():
            partial.rename(self.folder(stage))
        if self.folder(stage).exists():
            shutil.rmtree(self._former(stage), ignore_errors=True)
            for name in _UNFINISHED:
                unfinished = self.folder(stage) / name
                if unfinished.exists():  # looked at first: to unlink fails where nothing is written
                    unfinished.unlink(missing_ok=True)

    def _damaged(self, stage: str, manifest: StageManifest) -> str | None:
        folder, editable = self.folder(stage), EDITABLE.get(stage, ())
        for name, digest in manifest.outputs.items():
            path = folder / name
            if not path.is_file() or (name not in editable and file_digest(path) != digest):
                return name
        return None


def _clear(partial: Path, keep: str) -> None:
    """Empty the folder of an attempt, but for what one left that was made from `keep`."""
    attempt = partial / _ATTEMPT
    same = attempt.is_file() and attempt.read_text() == keep
    if not same:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_atomically(attempt, keep.encode())
    for path in (x for x in partial.iterdir() if x.name not in (*_UNFINISHED, FINISHED)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
