"""Tables of the optimization: what every pass gained, tensor by tensor and layer by layer."""

from __future__ import annotations

from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.report.sheet import Sheet, count_text, number_text, share_text


def all_sheets(optimize: OptimizeRecord) -> tuple[Sheet, ...]:
    """Passes, then tensors, then layers."""
    return (
        passes_sheet(optimize),
        *((shifted_sheet(optimize),) if optimize.shifted else ()),
        tensors_sheet(optimize),
        layers_sheet(optimize),
    )


def passes_sheet(optimize: OptimizeRecord) -> Sheet:
    """Every pass in order, and what it cost."""
    rows = tuple(
        (
            x.name,
            "kept" if x.kept else "dropped: it does not lower the error",
            number_text(x.error_before),
            number_text(x.error_after),
            _fall(x.error_before, x.error_after),
        )
        for x in optimize.passes
    )
    parts = [*optimize.notes]
    if not optimize.passes:
        rows = (("none", "no pass is on, or none had anything to do", "-", "-", "-"),)
    else:
        parts.append(
            f"Error: {optimize.metric} of {optimize.samples} held-out samples, everything INT8 "
            "(emulated)."
        )
    multiplied = sum(x.how == "multiplied" for x in optimize.tensors)
    if multiplied:
        elements = count_text(optimize.multiplied_elements)
        parts.append(f"{multiplied} Mul nodes were added: {elements} elements a sample.")
    if optimize.shifted or optimize.tensors:
        difference = number_text(optimize.float_difference)
        parts.append(f"The float model's outputs move by at most {difference} of the largest.")
    head = ("pass", "result", "error before", "after", "fall")
    return Sheet("Optimization", head, "llrrr", rows, " ".join(parts))


def shifted_sheet(optimize: OptimizeRecord) -> Sheet:
    """Tensors whose channels were centred, those that gained most first."""
    order = sorted(optimize.shifted, key=lambda x: x.span_after / max(x.span_before, 1e-300))
    rows = tuple(
        (
            x.group,
            number_text(x.span_before),
            number_text(x.span_after),
            _fall(x.span_before, x.span_after),
        )
        for x in order
    )
    head = ("group", "span before", "after", "fall")
    note = "Span: from the least to the greatest value, 0 included."
    return Sheet("Shifted tensors", head, "lrrr", rows, note)


def tensors_sheet(optimize: OptimizeRecord) -> Sheet:
    """Smoothed tensors, those that gained most first."""
    order = sorted(optimize.tensors, key=lambda x: x.error_after / max(x.error_before, 1e-300))
    rows = tuple(
        (
            x.group,
            x.how,
            x.scale,
            number_text(x.error_before),
            number_text(x.error_after),
            _fall(x.error_before, x.error_after),
        )
        for x in order
    )
    head = ("group", "scale is", "chosen", "error before", "after", "fall")
    note = "Error: relative squared error of the group's outputs on sampled rows."
    return Sheet("Smoothed tensors", head, "lllrrr", rows, note)


def layers_sheet(optimize: OptimizeRecord) -> Sheet:
    """Rebuilt layers, the largest error first."""
    order = sorted(optimize.layers, key=lambda x: -x.error_rounded)
    rows = tuple(
        (
            x.layer,
            number_text(x.error_nearest),
            number_text(x.error_rounded),
            number_text(x.error_corrected),
        )
        for x in order
    )
    head = ("layer", "rounded to nearest", "by the output", "bias corrected")
    note = "Relative squared error of the layer's output on sampled rows."
    return Sheet("Rebuilt layers", head, "lrrr", rows, note)


def _fall(before: float, after: float) -> str:
    return share_text(1 - after / before, 0) if before > 0 else "-"
