"""Weights in files: read as they are, written one at a time, held no longer than needed."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.scratch import ArrayFile
from quantflow.artifacts.weight_file import (
    DERIVED_BYTES,
    array_of,
    derived,
    refer_to,
    weights_of,
    write_weights,
)


def model_of(**tensors: ir.TensorProtocol) -> ir.Model:
    values = [ir.val(name, const_value=tensor) for name, tensor in tensors.items()]
    graph = ir.Graph([], [], nodes=[], initializers=values, opset_imports={"": 18}, name="g")
    return ir.Model(graph, ir_version=9)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(-5, 2, dtype=np.int8),
        np.array(7, np.int64),
        np.ones((2, 3), ml_dtypes.bfloat16),
        np.zeros((0, 3), np.float32),
    ],
)
def test_what_is_written_is_read_back(tmp_path: Path, array: np.ndarray) -> None:
    other = ir.tensor(np.arange(5, dtype=np.uint8), name="other")
    model = model_of(other=other, w=ir.tensor(array, name="w"))
    places = write_weights(weights_of(model), tmp_path / "weights")
    filed = refer_to(model, places, "weights", tmp_path).graph.initializers["w"].const_value
    assert isinstance(filed, ir.ExternalTensor) and filed.dtype == ir.DataType.from_numpy(
        array.dtype
    )
    assert array_of(filed).shape == array.shape
    assert np.array_equal(array_of(filed), array)
    held = model.graph.initializers["w"].const_value
    assert isinstance(held, ir.Tensor)  # the model itself is as it was


def test_a_tensor_that_several_initializers_share_is_written_once(tmp_path: Path) -> None:
    tied = ir.tensor(np.ones(2000, np.float32), name="tied")
    model = model_of(a=tied, b=tied)
    places = write_weights(weights_of(model), tmp_path / "weights")
    assert (tmp_path / "weights").stat().st_size == 8000
    copy = refer_to(model, places, "weights", tmp_path)
    assert all(
        isinstance(v.const_value, ir.ExternalTensor) for v in copy.graph.initializers.values()
    )


def test_a_file_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    def fails() -> np.ndarray:
        raise OSError("disk full")

    good = ir.tensor(np.ones(10, np.float32), name="good")
    bad = derived("bad", fails, ir.DataType.FLOAT, (1000, 1000))
    with pytest.raises(OSError, match="disk full"):
        write_weights([good, bad], tmp_path / "weights")
    assert list(tmp_path.iterdir()) == []


def test_a_large_derived_tensor_is_computed_when_it_is_read_and_a_small_one_at_once() -> None:
    calls = list[int]()

    def of(size: int) -> ir.TensorProtocol:
        def make() -> np.ndarray:
            calls.append(size)
            return np.full(size, 3, np.float32)

        return derived("w", make, ir.DataType.FLOAT, (size,))

    small, large = of(10), of(DERIVED_BYTES)
    assert calls == [10] and large.shape == (DERIVED_BYTES,)
    assert large.numpy()[0] == 3 and large.numpy()[-1] == 3 and calls.count(DERIVED_BYTES) == 2
    assert np.array_equal(small.numpy(), np.full(10, 3)) and calls.count(10) == 1


def test_writing_holds_one_derived_tensor_at_a_time(tmp_path: Path) -> None:
    size = 4 * DERIVED_BYTES
    tensors = [
        derived(f"w{i}", lambda: np.ones(size // 4, np.float32), ir.DataType.FLOAT, (size // 4,))
        for i in range(8)
    ]
    tracemalloc.start()
    write_weights(tensors, tmp_path / "weights")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "weights").stat().st_size == 8 * size and peak < 1.5 * size


def test_a_map_is_gone_with_the_array_that_needs_it(tmp_path: Path) -> None:
    model = model_of(w=ir.tensor(np.ones(5000, np.float32), name="w"))
    places = write_weights(weights_of(model), tmp_path / "weights")
    filed = refer_to(model, places, "weights", tmp_path).graph.initializers["w"].const_value
    assert filed is not None
    array = array_of(filed)
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    del array
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_arrays_in_a_file_come_back_as_they_were() -> None:
    file = ArrayFile()
    arrays = {
        ("a", 0): np.arange(6, dtype=np.float32).reshape(2, 3),
        ("a", 1): np.arange(6, dtype=np.int8).reshape(3, 2).T,
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 4), np.float32),
    }
    for key, array in arrays.items():
        file.add(key, array)
    for key, array in reversed(arrays.items()):
        found = file[key]
        assert found.dtype == array.dtype and np.array_equal(found, array)
