"""Tables of ranges, clipping and what fp16 cannot hold; worst first."""

from __future__ import annotations

from quantflow.artifacts.ranges_record import (
    ClippingReport,
    ClippingRow,
    Fp16Report,
    Fp16Tensor,
    RangesRecord,
)
from quantflow.report.sheet import Sheet, db_text, number_text, share_text

_CLIPPING_HEAD = (
    "low",
    "high",
    "absmax",
    "absmax / bound",
    "clipped",
    "energy lost",
    "SQNR dB",
    "flag",
)


def ranges_sheet(ranges: RangesRecord) -> Sheet:
    """The range in force of every quantized tensor, in graph order."""
    rows = [
        (
            x.tensor,
            number_text(x.low),
            number_text(x.high),
            x.estimator,
            number_text(x.params.scale),
            str(x.params.zero_point),
            x.reason,
            x.overridden,
        )
        for x in ranges.ranges
    ]
    head = ("tensor", "low", "high", "estimator", "scale", "zero point", "reason", "overridden")
    return Sheet("Ranges", head, "lrrlrrll", tuple(rows))


def nonfinite_sheet(ranges: RangesRecord) -> Sheet:
    """Where NaN and Inf were seen."""
    rows = [
        (x.tensor, x.split, str(x.nan), str(x.inf), ", ".join(x.samples)) for x in ranges.nonfinite
    ]
    head = ("tensor", "split", "NaN", "Inf", "samples")
    return Sheet("Values that are not finite", head, "llrrl", tuple(rows))


def clipping_sheet(report: ClippingReport) -> Sheet:
    """What the ranges in force clip, on both splits: flagged first, then least SQNR."""
    chosen = sorted((x for x in report.rows if x.chosen), key=lambda x: (not x.flag, x.sqnr_db))
    rows = [(x.tensor, x.split, x.candidate, *_clipping_cells(x)) for x in chosen]
    head = ("tensor", "split", "estimator", *_CLIPPING_HEAD)
    note = "absmax / bound above 1 means that values are clipped; SQNR is of rounding and clipping."
    return Sheet("Clipping", head, "lllrrrrrrrl", tuple(rows), note)


def candidates_sheet(report: ClippingReport, tensor: str) -> Sheet:
    """All candidate ranges of one tensor on both splits; the one in force is marked."""
    rows = [
        (x.split, f"{x.candidate} *" if x.chosen else x.candidate, *_clipping_cells(x))
        for x in sorted(
            (x for x in report.rows if x.tensor == tensor), key=lambda x: (x.split, -x.sqnr_db)
        )
    ]
    head = ("split", "candidate", *_CLIPPING_HEAD)
    return Sheet(f"Candidates for {tensor}", head, "llrrrrrrrl", tuple(rows), "* is in force.")


def _clipping_cells(row: ClippingRow) -> tuple[str, ...]:
    return (
        number_text(row.low),
        number_text(row.high),
        number_text(row.absmax),
        f"{row.clipping_ratio:.2f}",
        share_text(row.clipped_low_fraction + row.clipped_high_fraction),
        share_text(row.energy_lost_fraction),
        db_text(row.sqnr_db),
        row.flag,
    )


def fp16_sheet(report: Fp16Report) -> Sheet:
    """Tensors that fp16 holds badly: overflow first, then the largest share flushed to zero."""
    risky = [x for x in report.tensors if x.overflow or x.flushed_fraction or x.subnormal_fraction]
    rows = [_fp16_cells(x) for x in sorted(risky, key=_fp16_badness, reverse=True)]
    head = ("tensor", "op", "absmax", "overflow", "subnormal", "flushed to 0")
    note = (
        f"{len(report.tensors)} float tensors on {report.samples} samples. "
        "fp16 ends at 65504, is subnormal below 6.1e-5 and zero below 3e-8."
    )
    return Sheet("Tensors that fp16 holds badly", head, "llrlrr", tuple(rows), note)


def _fp16_badness(tensor: Fp16Tensor) -> tuple[bool, float, float, float]:
    return (
        tensor.overflow,
        tensor.absmax if tensor.overflow else 0.0,
        tensor.flushed_fraction,
        tensor.subnormal_fraction,
    )


def _fp16_cells(tensor: Fp16Tensor) -> tuple[str, ...]:
    return (
        tensor.tensor,
        tensor.op_type or "input",
        number_text(tensor.absmax),
        "yes" if tensor.overflow else "no",
        share_text(tensor.subnormal_fraction),
        share_text(tensor.flushed_fraction),
    )


def islands_sheet(report: Fp16Report) -> Sheet:
    """Nodes that stay in fp32, largest magnitude first."""
    islands = sorted(report.islands, key=lambda x: -x.absmax)
    rows = [(x.node, x.op_type, x.tensor, number_text(x.absmax)) for x in islands]
    note = "atc keeps them in fp32 through --keep_dtype."
    return Sheet("fp32 islands", ("node", "op", "tensor", "absmax"), "lllr", tuple(rows), note)
