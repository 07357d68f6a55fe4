"""How the attention mask maps to other tensors: by probing shapes, not by trusting annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from quantflow.graph.bucket import bucket_model, free_dims
from quantflow.graph.edit import values_by_name

Layout = Literal["positions", "flat", "none"]


def map_padding(model: ir.Model, mask: str, tensors: Sequence[str]) -> dict[str, Layout]:
    """Find for every tensor where the mask's ``(batch, length)`` positions are.

    The model is made static with two sets of sizes, all different; a tensor has the layout that
    both shapes agree on.

    Args:
        model: a canonical model.
        mask: name of its mask input; a mask that is not 2-D maps nowhere.
        tensors: values of the graph.
    """
    names = free_dims(model)
    found: list[dict[str, Layout]] = []
    for start in (3, 5):
        # Small, since a model may have few positions.
        dims = {name: start + 4 * i for i, name in enumerate(names)}
        values = values_by_name(bucket_model(model, dims))
        shape = values[mask].shape
        found.append({t: _layout(shape, values[t].shape if t in values else None) for t in tensors})
    first, second = found
    return {t: first[t] if first[t] == second[t] else "none" for t in tensors}


def _layout(mask: ir.Shape | None, tensor: ir.Shape | None) -> Layout:
    if mask is None or tensor is None or not tensor.is_static() or mask.rank() != 2:
        return "none"
    batch, length = mask.numpy()
    dims = tensor.numpy()
    if len(dims) >= 3 and dims[:2] == (batch, length):
        return "positions"
    if len(dims) >= 2 and dims[0] == batch * length:
        return "flat"
    return "none"
