"""What stage 5 writes about the conversions."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from quantflow.artifacts.record import Record

OmStatus = Literal["converted", "not-converted", "refused", "failed"]
ConversionKind = Literal["int8", "fp16", "probe"]

LARGEST_FILE: Final = 2**63 - 1
"""Bytes that a file can have."""

_WORST_FIRST: tuple[OmStatus, ...] = ("failed", "refused", "not-converted", "converted")


class Finding(Record):
    """Something that preflight, or taking back what was converted elsewhere, noticed.

    Attributes:
        level: an `error` would make atc refuse the model, a `warning` might.
        what: in one sentence.
        where: option, node or op type.
        fix: what to do.
    """

    level: Literal["error", "warning"]
    what: str
    where: str = ""
    fix: str = ""


class Elsewhere(Record):
    """Where and when a model was converted, as `convert.py` says: nothing of it can be verified.

    Attributes:
        host, machine: name of the machine and its processor.
        atc: path of atc.
        started, finished: ISO 8601, UTC.
    """

    host: str = Field(default="", max_length=200)
    machine: str = Field(default="", max_length=200)
    atc: str = Field(default="", max_length=1000)
    started: str = Field(default="", max_length=40)
    finished: str = Field(default="", max_length=40)


class Conversion(Record):
    """One conversion. `convert.py` writes the same of its own in `result.json`.

    Attributes:
        name: of the conversion, and of its .om file without what atc puts behind it.
        bucket: name of the bucket; empty for a probe.
        kind: `int8` for the deploy model, `fp16` for the float model that it replaces, `probe` for
            a small one that asks the chip a question.
        status: `converted` only when exit code, success line and .om header agree; `refused` when
            preflight found an error, so that atc was not started; `failed` when atc was.
        reason: why it is not `converted`; of a `converted` one, that and why it is kept from before
            since converting it again failed; or empty.
        command: atc's argument list, paths relative to `50_om`.
        digest: SHA-256 of all that decides the result: arguments, chip, content of every file.
        om: the .om file, relative to `50_om`, when converted.
        sha256, size: of the .om file; its size in bytes.
        log: atc's output, relative to `50_om`; empty where atc was not started.
        atc_version: the line in which atc told its version, or empty.
        elsewhere: where it was converted, when not here.
    """

    name: str
    bucket: str
    kind: ConversionKind = "int8"
    status: OmStatus
    reason: str = ""
    command: tuple[str, ...] = ()
    digest: str = ""
    om: str | None = None
    sha256: str | None = None
    size: int | None = Field(default=None, ge=0, le=LARGEST_FILE, strict=True)
    log: str = ""
    atc_version: str = ""
    elsewhere: Elsewhere | None = None


class OmRecord(Record):
    """`50_om/om.json`.

    Attributes:
        status: the worst of the INT8 conversions; the others are told and do not count.
        findings: of preflight.
        conversions: by bucket, the INT8 one first.
        rejected: what came back from another machine and was not taken over.
    """

    status: OmStatus
    findings: tuple[Finding, ...]
    conversions: tuple[Conversion, ...]
    rejected: tuple[Finding, ...] = ()

    @property
    def elsewhere(self) -> tuple[Elsewhere, ...]:
        """Where INT8 models were converted, when not here; each once."""
        converted = [x for x in self.conversions if x.status == "converted" and x.kind == "int8"]
        found = [x.elsewhere for x in converted if x.elsewhere]
        return tuple({(x.host, x.machine): x for x in found}.values())


class OmResult(Record):
    """`result.json`, which `convert.py` writes where it was run.

    Attributes:
        format: version of this layout.
        exit_code: with which convert.py ended.
        soc_version: the chip.
        conversions: all of them, in the order of `conversions.json`.
    """

    format: int = Field(ge=1, le=1, strict=True)
    exit_code: int = Field(ge=0, le=255, strict=True)
    soc_version: str = Field(max_length=100)
    conversions: tuple[Conversion, ...] = Field(max_length=10_000)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({row.name for row in self.conversions}) < len(self.conversions):
            raise ValueError("a conversion is there twice")
        return self


def worst_status(conversions: tuple[Conversion, ...]) -> OmStatus:
    """What the INT8 conversions come to."""
    statuses = {x.status for x in conversions if x.kind == "int8"}
    for status in _WORST_FIRST:
        if status in statuses:
            return status
    return "not-converted"


def elsewhere_text(where: Elsewhere) -> str:
    """Host and time, with who says so."""
    host = " ".join(filter(None, (where.host or "unknown host", where.machine)))
    return f"{host}, {where.finished or 'unknown time'}, as its result.json says"
