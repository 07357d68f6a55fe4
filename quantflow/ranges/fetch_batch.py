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
    sizes = value_bytes(
        model, {name: 1 if name == first.value else dims[name] for name in free_dims(model)}
    )
    taken = sum(sizes.get(name, 0) for name in tensors)
    return max(1, min(batch, FETCHED_BYTES // max(taken, 1)))


def value_bytes(model: ir.Model, dims: Mapping[str, int]) -> dict[str, int]:
    """Bytes that values of a model take, by name; one whose size cannot be inferred is left out.

    Args:
        model: a canonical model.
        dims: size of every free dimension of the inputs.
    """
    found = dict[str, int]()
    for name, value in values_by_name(bucket_model(model, dims)).items():
        if value.shape is not None and value.shape.is_static() and value.dtype is not None:
            found[name] = int(prod(value.shape.numpy()) * value.dtype.itemsize)
    return found
