"""How many samples run at once where all quantized tensors are fetched.

onnxruntime returns all outputs of a batch together, so that a large model (211 layers of SmolLM2
read 200 MB for 512 tokens) would need gigabytes at a batch that suits plain inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import onnx_ir as ir

from quantflow.graph.bucket import bucket_model, free_dims
from quantflow.graph.edit import values_by_name

FETCHED_BYTES = 256 * 2**20
"""What the tensors of a batch may take."""


def fetch_batch(
    model: ir.Model, tensors: Iterable[str], dims: Mapping[str, int], batch: int
) -> int:
    """The largest batch, of at most `batch`, whose tensors fit into `FETCHED_BYTES`.

    A model of a fixed batch keeps it.

    Args:
        model: a canonical model.
        tensors: float32 values that are fetched.
        dims: a large size for every free dimension of the inputs but the batch.
        batch: samples per inference of the model alone.
    """
    shape = model.graph.inputs[0].shape
    first = shape[0] if shape is not None else None
    if first is None or isinstance(first, int):
        return batch
    sizes = {name: 1 if name == first.value else dims[name] for name in free_dims(model)}
    values = values_by_name(bucket_model(model, sizes))
    shapes = [values[name].shape for name in tensors if name in values]
    elements = sum(prod(x.numpy()) for x in shapes if x is not None and x.is_static())
    return max(1, min(batch, FETCHED_BYTES // max(4 * elements, 1)))
