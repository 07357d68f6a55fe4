"""Probes: models that the dialect's linter passes, and answers that are recognized.

Outputs are computed here by loops over what the written files hold, not by `probe_cases`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import numpy_helper

from quantflow.ascend.probe_cases import ProbeCase, probe_cases
from quantflow.ascend.probes import Probe, judge_probe, write_probes
from quantflow.config import TargetConfig
from quantflow.graph.model_io import load_model
from quantflow.target.lint import lint
from quantflow.target.op_table import Cann

CASES = {case.name: case for case in probe_cases()}


def _output(
    path: Path,
    *,
    per_channel: bool = True,
    compensated: float = 1,
    pad_with_offset: bool = True,
    fp19: bool = True,
    rounding: Any = np.round,
) -> NDArray[np.float64]:
    """The output of a written probe on a chip with these habits, as a scalar definition has it."""
    with np.load(path.with_suffix(".npz")) as arrays:
        x = arrays["input/x"].astype(np.float64)
    graph = onnx.load(path).graph
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quant = {a.name: onnx.helper.get_attribute_value(a) for a in graph.node[0].attribute}
    weight, offset = held["weight"].astype(np.int64), int(quant["offset"])
    q = np.clip(rounding(x * quant["scale"]) + offset, -128, 127)
    scale = (held["deq_scale"] & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    if fp19:
        scale = (scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if not per_channel:
        scale = scale[:1]
    if weight.ndim == 2:
        sums = np.zeros((x.shape[1], weight.shape[1]))
        for row in range(x.shape[1]):
            for k in range(weight.shape[0]):
                sums[row] += q[0, row, k] * weight[k]
        total = weight.sum(axis=0)
        return ((sums - compensated * offset * total) * scale.astype(np.float64))[None]
    value = offset if pad_with_offset else 0
    outer = np.full((q.shape[1], 10, 10), float(value))
    outer[:, 1:-1, 1:-1] = q[0]
    sums = np.zeros((1, weight.shape[0], 8, 8))
    for o in range(weight.shape[0]):
        for i in range(8):
            for j in range(8):
                sums[0, o, i, j] = (outer[:, i : i + 3, j : j + 3] * weight[o]).sum()
        sums[0, o] -= compensated * offset * weight[o].sum()
    return sums * scale.astype(np.float64).reshape(1, -1, 1, 1)


def _half_away(x: NDArray[Any]) -> NDArray[Any]:
    return np.trunc(x + np.copysign(0.5, x))


HABITS: list[tuple[str, dict[str, Any], str]] = [
    ("probe_per_channel", {}, "one scale per output channel"),
    ("probe_per_channel", {"per_channel": False}, "the first scale for all channels"),
    ("probe_matmul_offset", {}, "made up for"),
    ("probe_matmul_offset", {"compensated": 0}, "not made up for"),
    ("probe_matmul_offset", {"compensated": -1}, "added a second time"),
    ("probe_conv_padding", {}, "padded with the offset, made up for"),
    ("probe_conv_padding", {"pad_with_offset": False}, "padded with 0, made up for"),
    ("probe_conv_padding", {"compensated": 0}, "padded with the offset, not made up for"),
    (
        "probe_conv_padding",
        {"compensated": 0, "pad_with_offset": False},
        "padded with 0, not made up for",
    ),
    ("probe_scale_bits", {}, "cut to FP19"),
    ("probe_scale_bits", {"fp19": False}, "float32, or rounded to FP19"),
    ("probe_rounding", {}, "half to even"),
    ("probe_rounding", {"rounding": _half_away}, "half away from zero"),
    ("probe_rounding", {"rounding": lambda x: np.floor(x + 0.5)}, "half up"),
    ("probe_rounding", {"rounding": np.trunc}, "towards zero"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probes")
    write_probes(path, TargetConfig())
    return path


@pytest.mark.parametrize(("name", "habits", "expected"), HABITS)
def test_a_chips_habit_is_recognized_from_its_fp16_output(
    folder: Path, name: str, habits: dict[str, Any], expected: str
) -> None:
    output = _output(folder / f"{name}.onnx", **habits)
    assert judge_probe(output, CASES[name].hypotheses) == expected
    # fp16, and another half a step of noise on top.
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, output.shape)
    rounded = output.astype(np.float16)
    noisy = rounded.astype(np.float64) + noise * np.spacing(np.abs(rounded)).astype(np.float64)
    assert judge_probe(noisy.astype(np.float32), CASES[name].hypotheses) == expected


def test_every_hypothesis_is_covered_by_a_habit() -> None:
    named = {(name, expected) for name, _, expected in HABITS}
    assert named == {(case.name, x) for case in CASES.values() for x in case.hypotheses}


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_a_wild_output_is_none_of_them(case: ProbeCase) -> None:
    expected = case.hypotheses[case.assumed]
    wild = np.random.default_rng(1).normal(size=expected.shape) * np.abs(expected).max()
    broken = expected.copy()
    broken.flat[0] = np.nan
    for output in (wild, broken, expected * 1.1, expected[:, :1], np.zeros_like(expected)):
        assert judge_probe(output, case.hypotheses) is None


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_hypotheses_are_further_apart_than_fp16_rounds(case: ProbeCase) -> None:
    outputs = [x.astype(np.float64) for x in case.hypotheses.values()]
    assert case.x.astype(np.float16).astype(np.float32).tobytes() == case.x.tobytes()
    for i, a in enumerate(outputs):
        rounding = np.abs(a - a.astype(np.float16).astype(np.float64))
        for b in outputs[i + 1 :]:
            apart = np.abs(a - b)
            assert apart.max() > 4 * rounding.max()
            assert np.sqrt((apart**2).mean()) > 4 * np.sqrt((rounding**2).mean())


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_whatever_is_not_assumed_says_what_it_means(case: ProbeCase) -> None:
    assert set(case.meanings) == set(case.hypotheses) - {case.assumed}
    assert case.question.endswith("?")


@pytest.mark.parametrize("cann", ["2026", "8.0"])
def test_probes_pass_the_linter(tmp_path: Path, cann: Cann) -> None:
    probes = write_probes(tmp_path / "new", TargetConfig(cann=cann))
    assert [probe.name for probe in probes] == list(CASES)
    for probe in probes:
        assert [x for x in lint(load_model(probe.file), cann) if x.level == "error"] == []
        _check_files(probe)


def _check_files(probe: Probe) -> None:
    model = onnx.load(probe.file)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = tuple(dim.dim_value for dim in dims)
    assert probe.input_shapes == {model.graph.input[0].name: shape}
    with np.load(probe.file.with_suffix(".npz")) as arrays:
        assert arrays["input/x"].shape == shape
        assert len(arrays.files) == 1 + len(CASES[probe.name].hypotheses)


def test_probes_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, again = (write_probes(tmp_path / x, TargetConfig()) for x in "ab")
    for a, b in zip(first, again, strict=True):
        assert a.file.read_bytes() == b.file.read_bytes()


@given(
    shape=st.sampled_from([(2, 3), (3, 2), ()]),
    data=st.data(),
    value=st.floats(width=32, allow_nan=True, allow_infinity=True),
)
@settings(max_examples=60, deadline=None)
def test_any_output_gives_the_nearest_hypothesis_or_none(
    shape: tuple[int, ...], data: st.DataObject, value: float
) -> None:
    hypotheses = {"low": np.full((2, 3), 1.0, np.float32), "high": np.full((2, 3), 2.0, np.float32)}
    count = int(np.prod(shape))
    factors = data.draw(st.lists(st.floats(0.999, 1.001), min_size=count, max_size=count))
    output = np.array(factors, np.float64).reshape(shape) * value
    found = judge_probe(output, hypotheses)
    if shape != (2, 3) or not np.isfinite(output).all():
        assert found is None
    elif found is not None:
        # Within 2^-9 of it, relative and by root mean square.
        level = {"low": 1.0, "high": 2.0}[found]
        assert ((output - level) ** 2).mean() ** 0.5 <= level * 2**-9 * (1 + 1e-9)
    else:
        assert all(((output - x) ** 2).mean() ** 0.5 > x * 2**-9 * (1 - 1e-9) for x in (1.0, 2.0))
