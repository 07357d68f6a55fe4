"""A user's own figure: what it is given, what it may return, and what is said of the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantflow.errors import Problem, QuantflowError
from quantflow.tasks.user_figure import Figure, load_figure

Load = Callable[[str], Figure]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Makes a figure of the body of a function."""

    def make(body: str) -> Figure:
        text = f"import numpy as np\ndef figure(id, inputs, outputs):\n    {body}\n"
        (tmp_path / "mine.py").write_text(text)
        return load_figure("mine:figure", tmp_path)

    return make


def problem(figure: Figure) -> Problem:
    with pytest.raises(QuantflowError) as caught:
        figure("texts[7]", {}, {"y": np.ones(2, np.float32)})
    (found,) = caught.value.problems
    assert found.code == "QF312" and found.where == "mine:figure"
    assert "texts[7]" in found.what
    return found


def test_it_is_given_the_id_the_inputs_and_the_outputs(load: Load) -> None:
    figure = load("return float(id[1:]) + 10 * inputs['x'][0] + 100 * outputs['y'].sum()")
    found = figure("s3", {"x": np.array([2])}, {"y": np.ones((2, 2), np.float32)})
    assert found == 3 + 20 + 400


def test_what_it_does_to_the_arrays_is_its_own_affair(load: Load) -> None:
    x, y = np.ones(3), np.ones(2, np.float32)
    x.setflags(write=False)  # as what is mapped from a file
    figure = load("inputs['x'] *= 0; outputs['y'] -= 5; outputs.clear(); return 1")
    assert figure("s", {"x": x}, {"y": y}) == 1
    assert x.tolist() == [1] * 3 and y.tolist() == [1] * 2


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("2", 2.0),
        ("True", 1.0),
        ("np.bool_(False)", 0.0),
        ("np.float32(0.5)", 0.5),
        ("np.array(7)", 7.0),
        ("outputs['y'].mean()", 1.0),
        ("__import__('torch').tensor(0.25)", 0.25),
        ("__import__('fractions').Fraction(1, 8)", 0.125),
        ("float('inf')", math.inf),
    ],
)
def test_any_number_is_taken(load: Load, value: str, number: float) -> None:
    found = load(f"return {value}")("s", {}, {"y": np.ones(2, np.float32)})
    assert type(found) is float and found == number


def test_nan_is_a_number(load: Load) -> None:
    assert math.isnan(load("return float('nan')")("s", {}, {}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("None", "NoneType None"),
        ("'0.5'", "str '0.5'"),
        ("b'1'", "bytes"),
        ("[1.0]", "list [1.0]"),
        ("(1, 2)", "tuple"),
        ("outputs", "dict"),
        ("1j", "complex"),
        ("np.complex64(1)", "complex64"),
        ("np.ones(2)", "ndarray of shape (2,)"),
        ("np.ones(1)", "ndarray of shape (1,)"),
        ("__import__('torch').ones(2, 3)", "Tensor of shape (2, 3)"),
        ("10 ** 400", "int"),
    ],
)
def test_what_is_no_number_is_named(load: Load, value: str, said: str) -> None:
    found = problem(load(f"return {value}"))
    assert f"it returned {said}" in found.what and "one number" in found.fix


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return inputs['absent']", "KeyError: 'absent'"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_what_it_raises_is_said_with_the_sample(load: Load, body: str, said: str) -> None:
    assert f"it raised {said}" in problem(load(body)).what


def test_a_function_that_is_not_there_is_known_before_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def figure(id, inputs, outputs):\n    return 1\n")
    for name in ("mine:figura", "absent_module:figure"):
        with pytest.raises(QuantflowError) as caught:
            load_figure(name, tmp_path)
        assert caught.value.problems[0].code == "QF105"
