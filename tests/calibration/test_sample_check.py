"""A sample fits the model's inputs exactly, or the message names sample, input, both shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.sample_check import cast_safely, check_sample
from quantflow.errors import QuantflowError


def _input(dtype: str = "float32", *dims: int | str, name: str = "x", mask: bool = False) -> Any:
    return TensorInfo(name=name, dtype=dtype, shape=("batch", *dims), mask=mask)


def _refusal(arrays: dict[str, Any], *inputs: TensorInfo) -> tuple[str, str]:
    with pytest.raises(QuantflowError) as caught:
        check_sample(arrays, inputs, "heldout[3]")
    assert "heldout[3]" in str(caught.value)
    return caught.value.problems[0].code, str(caught.value)


def test_names_must_be_those_of_the_model() -> None:
    x = np.zeros(2, np.float32)
    assert "did you mean 'xx'" in _refusal({"xx": x}, _input("float32", 2))[1]
    assert "no input of the model" in _refusal({"x": x, "y": x}, _input("float32", 2))[1]


def test_what_numpy_makes_no_array_of_is_refused() -> None:
    class Tensor:
        def __array__(self, *_: object, **__: object) -> None:
            raise RuntimeError("it requires grad")

    code, text = _refusal({"x": Tensor()}, _input("float32", 2))
    assert code == "QF306" and "Tensor" in text and "it requires grad" in text
    odd: dict[Any, Any] = {0: np.zeros(2)}
    assert _refusal(odd, _input("float32", 2))[0] == "QF306"


def test_rank_and_fixed_dimensions_are_checked() -> None:
    image = _input("float32", 3, "height", "width")
    code, text = _refusal({"x": np.zeros((1, 3, 8, 8), np.float32)}, image)
    assert code == "QF306"
    assert "(3, height, width)" in text
    assert "(1, 3, 8, 8), which seems to have the batch axis" in text
    assert "found shape (8, 8, 3)" in _refusal({"x": np.zeros((8, 8, 3), np.float32)}, image)[1]


def test_an_input_of_the_batch_alone_takes_a_number_a_sample() -> None:
    found = check_sample({"x": np.float32(3)}, [_input("float32")], "heldout[3]")
    assert found["x"].shape == () and found["x"] == 3


def test_a_free_dimension_has_one_size_in_all_inputs() -> None:
    inputs = _input("int64", "length"), _input("int64", "length", name="mask", mask=True)
    text = _refusal({"x": np.ones(4, np.int64), "mask": np.ones(5, np.int64)}, *inputs)[1]
    assert "found length = 5, but 4 in input 'x'" in text


def test_samples_without_usable_values_are_refused() -> None:
    mask = _input("int64", "length", name="mask", mask=True)
    assert _refusal({"mask": np.zeros(4, np.int64)}, mask)[0] == "QF307"
    assert _refusal({"mask": np.zeros(0, np.int64)}, mask)[0] == "QF307"
    # Masks that are added to scores, and 0 where a position is real: refused, with a way out.
    for added, expected in ((np.float32([0, 0, -1e4]), "QF306"), (np.float32([0, 0, 0]), "QF307")):
        floats = _input("float32", "length", name="mask", mask=True)
        code, said = _refusal({"mask": added}, floats)
        assert code == expected and "mask = false" in said
    for value in (np.nan, np.inf, -np.inf):
        code, text = _refusal({"x": np.float32([0, value])}, _input("float32", 2))
        assert code == "QF315"
        assert "1 values that are NaN or Inf" in text


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2], "float32"),
        ([0.1, 0.2], "float32"),
        (np.int64([5]), "int32"),
        (np.uint8([255]), "int64"),
        (np.int64([0, 1]), "bool"),
        (np.array([True]), "int64"),
        (np.float16([1.5]), "float32"),
    ],
)
def test_dtypes_that_keep_the_values_are_converted(value: Any, dtype: str) -> None:
    got = check_sample({"x": value}, [_input(dtype, "n")], "s")["x"]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.asarray(value).astype(dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1.0, 2.0], "int64"),
        ([2**24 + 1], "float32"),
        ([2**31], "int32"),
        ([-1], "uint8"),
        ([2], "bool"),
        ([1e39], "float32"),
        ([1e5], "float16"),
        (["a"], "float32"),
        ([None], "float32"),
        ([[1.0], [1.0, 2.0]], "float32"),
    ],
)
def test_dtypes_that_would_change_the_values_are_refused(value: Any, dtype: str) -> None:
    code, text = _refusal({"x": value}, _input(dtype, "n"))
    assert code == "QF306"
    assert f"{dtype}, found" in text


@settings(max_examples=200)
@given(
    array=hnp.arrays(st.sampled_from(["int64", "int32", "uint8", "bool"]), 3),
    dtype=st.sampled_from(["int64", "int32", "uint8", "bool", "float32"]),
)
def test_an_accepted_conversion_changes_no_integer(array: Any, dtype: str) -> None:
    same = [int(v) for v in array.tolist()] == [int(v) for v in array.astype(dtype).tolist()]
    try:
        got = cast_safely(array, _input(dtype, 3), "s")
    except QuantflowError:
        assert not same
    else:
        assert same
        assert got.dtype == dtype
