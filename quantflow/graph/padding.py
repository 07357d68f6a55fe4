"""How the attention mask maps to other tensors: by probing shapes, not by trusting annotations."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from quantflow.artifacts.model_record import Layout
from quantflow.graph.bucket import bucket_model, free_dims
from quantflow.graph.edit import static_shape, values_by_name

Dims = tuple[int, ...]


def map_padding(
    model: ir.Model, mask: str, tensors: Sequence[str]
) -> tuple[dict[str, Layout], list[str]]:
    """Find for every tensor where the mask's ``(batch, length)`` positions are.

    The model is made static with two sets of sizes, all different. What has the size of the batch,
    the length or a product in both cases is that; other axes must be the same in both.

    Args:
        model: a canonical model.
        mask: name of its mask input; a mask that is not 2-D maps nowhere.
        tensors: values of the graph.

    Returns:
        The layout of every tensor, and the tensors that may hold padding although the mask does not
        map to them.
    """
    names = free_dims(model)
    probes = list[dict[str, Dims | None]]()
    for start in (3, 5):
        # Small, since a model may have few positions.
        dims = {name: start + 4 * i for i, name in enumerate(names)}
        values = values_by_name(bucket_model(model, dims))
        probes.append({name: static_shape(values.get(name)) for name in (mask, *tensors)})
    masks = probes[0][mask], probes[1][mask]
    found, unmapped = dict[str, Layout](), list[str]()
    for tensor in tensors:
        shapes = probes[0][tensor], probes[1][tensor]
        layout = _layout(masks, shapes)
        found[tensor] = layout
        if layout == "none" and not _is_without_positions(masks, shapes):
            unmapped.append(tensor)
    return found, unmapped


def padding_notes(unmapped: Sequence[str]) -> list[str]:
    """What a person should know of tensors that the mask does not map to."""
    if not unmapped:
        return []
    names = ", ".join(unmapped[:5]) + (f" and {len(unmapped) - 5} more" if unmapped[5:] else "")
    return [f"the mask does not map to {names}: padding counts there like any other value"]


_Pair = tuple[Dims | None, Dims | None]
"""A shape with each set of sizes."""


def _layout(masks: _Pair, shapes: _Pair) -> Layout:
    if None in (*masks, *shapes):
        return "none"
    (first, second), (a, b) = masks, shapes
    assert first is not None and second is not None and a is not None and b is not None
    if len(first) != 2 or len(a) != len(b) or len(a) < 2:
        return "none"
    fixed = first[1] == second[1]  # a length that may be the size of any other axis as well
    along = [i for i in range(len(a)) if (a[i], b[i]) == (first[1], second[1])]
    if len(a) >= 3 and (a[:2], b[:2]) == (first, second) and (fixed or along == [1]):
        return "positions"
    if (a[0], b[0]) == (first[0] * first[1], second[0] * second[1]):
        return "flat"
    if fixed:
        return "none"
    batch = _batch_axis((first[0], second[0]), a, b)
    others = [i for i in range(len(a)) if i != batch and i not in along]
    if batch is None or not along or any(a[i] != b[i] for i in others):
        return "none"
    return (batch, *along)


def _batch_axis(batch: tuple[int, int], a: Dims, b: Dims) -> int | None:
    """The axis of the batch, or the first one where it is the batch merged with another one."""
    fixed = batch[0] == batch[1]
    for axis in range(1 if fixed else len(a)):
        if (a[axis], b[axis]) == batch:
            return axis
    multiple = a[0] // batch[0]
    return 0 if multiple and (a[0], b[0]) == (multiple * batch[0], multiple * batch[1]) else None


def _is_without_positions(masks: _Pair, shapes: _Pair) -> bool:
    """Whether no axis depends on the length: all are fixed, or multiples of the batch."""
    if None in (*masks, *shapes):
        return False
    (first, second), (a, b) = masks, shapes
    assert first is not None and second is not None and a is not None and b is not None
    if len(a) != len(b) or first[1] == second[1]:
        return len(a) == len(b) == 2 and (a[0], b[0]) == (first[0], second[0])
    return all(x == y or x * second[0] == y * first[0] for x, y in zip(a, b, strict=True))
