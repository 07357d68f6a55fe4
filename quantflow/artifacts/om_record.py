"""What stage 5 writes about the conversion."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record

OmStatus = Literal["converted", "not-converted", "refused", "failed"]


class Finding(Record):
    """Something that preflight noticed.

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


class Conversion(Record):
    """One bucket's conversion.

    Attributes:
        bucket: name of the bucket.
        status: `converted` only when exit code, success line and .om header agree; `refused` when
            preflight found an error, so that atc was not started; `failed` when atc was.
        reason: why it is not `converted`, or empty.
        command: atc's argument list, paths relative to `50_om`.
        om: the .om file, relative to `50_om`, when converted.
    """

    bucket: str
    status: OmStatus
    reason: str
    command: tuple[str, ...]
    om: str | None = None


class OmRecord(Record):
    """`50_om/om.json`: the worst status over the buckets, preflight's findings, each conversion."""

    status: OmStatus
    findings: tuple[Finding, ...]
    conversions: tuple[Conversion, ...]
