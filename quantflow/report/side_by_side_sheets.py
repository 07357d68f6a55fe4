"""Tables of two sides compared layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantflow.artifacts.side_by_side import FirstBeyond, Point, SideBySide
from quantflow.report.columns import Column, sheet_of
from quantflow.report.sheet import Sheet, cosine_text, count_text, number_text


def side_by_side_sheets(found: SideBySide, rows: int) -> Iterator[Sheet]:
    """All tables: what is worst, where it starts, and the layers that are at fault alone.

    Args:
        found: the comparison.
        rows: most rows of the long table.
    """
    yield points_sheet(found).first(rows, "--rows shows more, --json has all")
    if found.first_beyond is not None:
        yield first_sheet(found.first_beyond)
        yield own_sheet(found.first_beyond).first(rows)


def worst_first(points: Sequence[Point]) -> list[Point]:
    """NaN and Inf first, then what could not be compared, then by error."""
    return sorted(
        points,
        key=lambda x: (-x.nonfinite_apart, not x.trouble, not x.beyond, -_error(x), x.name),
    )


def points_sheet(found: SideBySide) -> Sheet:
    """Layers, block boundaries and outputs, worst first."""
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
        Column("cosine", tuple(_figure(x, cosine_text(x.cosine)) for x in points)),
        Column("least", tuple(_figure(x, cosine_text(x.cosine_min)) for x in points), spare=1),
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
    columns += [
        Column("worst sample", tuple(x.worst_samples[0] if x.worst_samples else "" for x in points),
               "l", spare=4),
        Column("beyond", tuple(x.trouble or x.beyond for x in points), "l"),
    ]  # fmt: skip
    return sheet_of(f"{found.other.name} against {found.reference.name}", columns, _note(found))


def first_sheet(first: FirstBeyond) -> Sheet:
    """Where the error starts."""
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
    return Sheet("First place beyond its threshold", ("", "value"), "ll", kept)


def own_sheet(first: FirstBeyond) -> Sheet:
    """The layers of the block alone."""
    rows = tuple(
        (x.layer, cosine_text(x.cosine), f"{x.relative_error:.3g}", x.beyond) for x in first.own
    )
    note = "Each layer is given the reference's input, so that only its own error counts."
    head = ("layer", "own cosine", "own relative error", "beyond")
    return Sheet("Layers of that block alone", head, "lrrl", rows, note)


def _error(point: Point) -> float:
    return point.relative_error if point.relative_error == point.relative_error else 0.0


def _figure(point: Point, text: str) -> str:
    return "-" if point.trouble else text


def _nonfinite(point: Point) -> str:
    if not point.nonfinite_other and not point.nonfinite_reference:
        return "0"
    return f"{count_text(point.nonfinite_other)} / {count_text(point.nonfinite_reference)}"


def _jitter(point: Point) -> str:
    return "-" if point.jitter_max_abs is None else f"{point.jitter_max_abs:.2g}"


def _note(found: SideBySide) -> str:
    where = f" in bucket {found.bucket}" if found.bucket else ""
    limits = found.limits
    error = "" if limits.output_error is None else f", error {limits.output_error:g} of the absmax"
    mark = "asked" if limits.layers_decide else "marked only below"
    return (
        f"{found.samples} samples{where}; {found.reference.name} is the reference. Outputs: mean "
        f"cosine {limits.output_cosine:g}{error}. Layers: cosine {limits.layer_cosine:g}, {mark}. "
        f"Source: {limits.source}. fp16 and int8 are emulated. NaN, Inf: of "
        f"{found.other.name} / of {found.reference.name}."
    )
