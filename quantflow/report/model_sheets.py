"""Tables of the model and its sample sets."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SetRecord
from quantflow.report.sheet import Sheet, count_text, shape_text, share_text


def inputs_sheet(model: ModelRecord) -> Sheet:
    """Inputs and outputs."""
    rows = [
        (side, x.name, x.dtype, shape_text(x.shape), "padding mask" if x.mask else "")
        for side, tensors in (("input", model.inputs), ("output", model.outputs))
        for x in tensors
    ]
    head = ("", "name", "dtype", "shape", "")
    note = " ".join(f"{note[0].upper()}{note[1:]}." for note in model.notes)
    return Sheet(f"Canonical model, opset {model.opset}", head, "lllll", tuple(rows), note)


def layers_sheet(model: ModelRecord) -> Sheet:
    """Every layer with a weight; those that stay float first, then the largest."""
    total = sum(layer.macs for layer in model.layers) or 1
    layers = sorted(model.layers, key=lambda x: (not x.float_reason, -x.macs))
    rows = [
        (
            x.name,
            x.op_type,
            x.role,
            x.group,
            count_text(x.macs),
            share_text(x.macs / total),
            x.float_reason,
        )
        for x in layers
    ]
    head = ("layer", "op", "role", "group", "MACs", "share", "why it stays float")
    note = "MACs of one sample in the first bucket. Layers of a group share their input's range."
    return Sheet("Layers", head, "llllrrl", tuple(rows), note)


def groups_sheet(model: ModelRecord) -> Sheet:
    """Layers that fall back together, largest first."""
    total = sum(layer.macs for layer in model.layers) or 1
    groups = sorted(model.groups, key=lambda x: -x.macs)
    rows = [
        (x.name, x.role, str(len(x.layers)), share_text(x.macs / total), x.tensor) for x in groups
    ]
    head = ("group", "role", "layers", "MACs", "reads")
    return Sheet("Groups", head, "llrrl", tuple(rows), "A group falls back to fp16 as a whole.")


def sets_sheet(sets: Sequence[SetRecord]) -> Sheet:
    """What the model was calibrated and judged on."""
    rows = [
        (
            x.name,
            count_text(len(x.samples)),
            count_text(len(x.samples) - x.duplicates),
            "-" if x.padding_fraction is None else share_text(x.padding_fraction),
            count_text(x.overlap),
            x.source,
        )
        for x in sets
    ]
    head = ("set", "samples", "distinct", "padding", "passed over", "source")
    notes = dict.fromkeys(note for record in sets for note in record.notes)
    note = "Passed over: records whose content another set already holds."
    return Sheet("Sample sets", head, "lrrrrl", tuple(rows), " ".join([note, *notes]))


def samples_sheet(record: SetRecord) -> Sheet:
    """The samples of one set, in the order they are read."""
    rows = [(x.id, x.preview, x.digest[:12]) for x in record.samples]
    return Sheet(f"Samples of {record.name}", ("sample", "preview", "digest"), "lll", tuple(rows))
