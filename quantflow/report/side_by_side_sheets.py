"""Tables of two sides compared layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from quantflow.artifacts.side_by_side import FirstBeyond, Point, SideBySide
from quantflow.evaluation.pair_verdict import worst_first
from quantflow.evaluation.thresholds import no_numbers
from quantflow.report.columns import Column, sheet_of
from quantflow.report.om_run_sheets import om_run_sheets
from quantflow.report.sheet import Sheet, cosine_text, count_text, number_text

ORDER = (
    "Sorted worst first: NaN and Inf, what cannot be compared, what is beyond, each by relative "
    "error."
)


def side_by_side_sheets(found: SideBySide, rows: int) -> Iterator[Sheet]:
    """All tables: what the chip answers and takes, what is worst, and where it starts.

    Args:
        found: the comparison.
        rows: most rows of the long table.
    """
    yield from om_run_sheets(found)
    yield points_sheet(found).first(rows, "--rows shows more, --json has all")
    if found.first_beyond is not None:
        yield first_sheet(found.first_beyond)
        yield own_sheet(found.first_beyond).first(rows)


def points_sheet(found: SideBySide) -> Sheet:
    """Layers, block boundaries, outputs and mere tensors, worst first."""
    points = worst_first(found.points)
    jitter = any(point.jitter_max_abs is not None for point in points)
    nonfinite = any(x.nonfinite_reference or x.nonfinite_other for x in points)
    columns = [
        Column("place", tuple(x.name for x in points), "l"),
        Column("what", tuple(x.kind for x in points), "l"),
    ]
    if nonfinite:
        columns.append(Column("NaN, Inf", tuple(_nonfinite(x) for x in points)))
    columns += [
        Column("cosine", tuple(_cosine(x, x.cosine) for x in points)),
        Column("least", tuple(_cosine(x, x.cosine_min) for x in points), spare=1),
        Column("relative error", tuple(_figure(x, f"{x.relative_error:.3g}") for x in points)),
        Column("max abs error", tuple(_figure(x, f"{x.max_abs_error:.3g}") for x in points)),
        Column("mean", tuple(_figure(x, f"{x.mean_abs_error:.3g}") for x in points), spare=3),
    ]
    if any(x.kl is not None for x in points):
        cells = tuple("-" if x.kl is None else number_text(x.kl) for x in points)
        columns.append(Column("KL, nats", cells))
    if jitter:
        cells = tuple(_jitter(x) for x in points)
        columns.append(Column("jitter", cells, spare=2))
    worst = "worst entry" if _dumps(found) else "worst sample"
    columns += [
        Column(worst, tuple(x.worst_samples[0] if x.worst_samples else "" for x in points),
               "l", spare=4),
        Column("beyond", tuple(x.trouble or x.beyond for x in points), "l"),
    ]  # fmt: skip
    sheet = sheet_of(f"{found.other.name} against {found.reference.name}", columns, _note(found))
    return replace(sheet, elsewhere="--json has all")


def first_sheet(first: FirstBeyond) -> Sheet:
    """Where the error starts; where the order is not known, where it is worst."""
    rows = [
        ("place", first.point),
        ("tensor", first.tensor),
        ("computed by", f"{first.op_type} {first.node}".strip()),
        ("module", first.module),
        ("block", "" if first.block is None else str(first.block)),
        ("last within", first.last_good),
        ("beyond in", first.reason),
        ("culprit", first.culprit),
    ]
    kept = tuple((head, cell) for head, cell in rows if cell)
    title = "First place beyond its threshold" if first.ordered else "Order unknown: worst place"
    return Sheet(title, ("", "value"), "ll", kept)


def own_sheet(first: FirstBeyond) -> Sheet:
    """The layers of the block alone."""
    rows = tuple(
        (x.layer, cosine_text(x.cosine), f"{x.relative_error:.3g}", x.beyond) for x in first.own
    )
    note = "Each layer is given the reference's input, so that only its own error counts."
    head = ("layer", "own cosine", "own relative error", "beyond")
    return Sheet("Layers of that block alone", head, "lrrl", rows, note)


def _figure(point: Point, text: str) -> str:
    return "-" if point.trouble else text


def _cosine(point: Point, value: float) -> str:
    """None beside a NaN: what is left is not the tensor."""
    return "-" if no_numbers(point, point.kind) else _figure(point, cosine_text(value))


def _dumps(found: SideBySide) -> bool:
    return found.reference.kind == found.other.kind == "dump"


def _nonfinite(point: Point) -> str:
    if not point.nonfinite_other and not point.nonfinite_reference:
        return "0"
    return f"{count_text(point.nonfinite_other)} / {count_text(point.nonfinite_reference)}"


def _jitter(point: Point) -> str:
    return "-" if point.jitter_max_abs is None else f"{point.jitter_max_abs:.2g}"


def _made_by(found: SideBySide) -> str:
    """What ran on a device, and what was emulated."""
    sides = (found.reference, found.other)
    ran = {f"{side.name} ran on {side.ran_on}. ": None for side in sides if side.ran_on}
    here = {side.kind for side in sides if not side.ran_on}
    emulated = not ran or here & {"fp16", "fp16_plain", "int8"}
    return "".join(ran) + ("fp16 and int8 are emulated. " if emulated else "")


def _note(found: SideBySide) -> str:
    limits, outputs, emulated = found.limits, "", ""
    counted = f"Up to {found.samples} entries along the first axis of a tensor"
    if not _dumps(found):
        counted = f"{found.samples} samples in bucket {found.bucket}"
        error = limits.output_error
        most = "" if error is None else f", error {error:g} of the absmax"
        outputs = f"Outputs: mean cosine {limits.output_cosine:g}{most}. "
        emulated = _made_by(found)
    mark = "asked" if limits.layers_decide else "marked only below"
    what = "Tensors" if _dumps(found) else "Other places"
    return (
        f"{counted}; {found.reference.name} is the reference. {outputs}{what}: cosine "
        f"{limits.layer_cosine:g}, {mark}. Source: {limits.source}. {emulated}NaN, Inf: of "
        f"{found.other.name} / of {found.reference.name}. {ORDER}"
    )
