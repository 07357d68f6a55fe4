"""Stage 2 of a model of convolutions: dense, depthwise, strided, transposed and pooled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import ClippingReport, RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.ranges.channel_file import load_channel_absmax
from tests.graph.models import build, rand, run
from tests.sensitivity.projects import run_until, write_project

TENSORS = {"x": 3, "a": 8, "b": 8, "c": 4, "d": 4}
"""The tensors that are quantized, and their channels."""

BODY = """
    a0 = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w0) a = Relu(a0)
    b0 = Conv<pads=[1,1,1,1], group=8>(a, w1) b1 = Tanh(b0) b = Add(b1, a)
    c = Conv(b, w2)
    d = ConvTranspose<strides=[2,2]>(c, w3)
    y = Conv(d, w4)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory."""
    directory = tmp_path_factory.mktemp("images")
    weights = {
        "w0": rand(8, 3, 3, 3),
        "w1": rand(8, 1, 3, 3, seed=1),
        "w2": rand(4, 8, 1, 1, seed=2),
        "w3": rand(4, 4, 2, 2, seed=3),
        "w4": rand(2, 4, 3, 3, seed=4),
    }
    model = build(f"(float[batch,3,12,10] x) => (float[batch,2,10,8] y) {{ {BODY} }}", weights)
    images = rand(40, 3, 12, 10, seed=5)
    images[:, 1, 3, 3] *= 6
    config = write_project(directory, model, {"x": images}, {"batch": 2})
    config.write_text(config.read_text().replace('"minmax"', '"auto"'))
    run_until("20_ranges", config)
    return directory / "run"


def test_every_convolution_s_input_has_the_range_of_its_values(folder: Path) -> None:
    record = ModelRecord.read(folder / "00_model" / "model.json")
    assert set(record.tensors) == set(TENSORS)
    ranges = RangesRecord.read(folder / "20_ranges" / "ranges.json")
    absmax = load_channel_absmax(folder / "20_ranges" / "channel_absmax.safetensors")
    samples = [dict(x) for x in SampleSet(folder / "10_set" / "calibration")]
    weights = {f"w{i}": x for i, x in enumerate([
        rand(8, 3, 3, 3), rand(8, 1, 3, 3, seed=1), rand(4, 8, 1, 1, seed=2),
        rand(4, 4, 2, 2, seed=3), rand(2, 4, 3, 3, seed=4),
    ])}  # fmt: skip
    outputs = ", ".join(f"float[batch,c,h,w] {name}" for name in "abcd")
    model = build(f"(float[batch,3,12,10] x) => ({outputs}) {{ {BODY} }}", weights)
    feeds = {"x": np.stack([sample["x"] for sample in samples])}
    values = {**feeds, **run(model, feeds)}
    rows = ClippingReport.read(folder / "20_ranges" / "clipping.json").rows
    for tensor, channels in TENSORS.items():
        seen = absmax["calibration"][tensor]
        assert seen.shape == (channels,)
        np.testing.assert_allclose(seen, np.abs(values[tensor]).max(axis=(0, 2, 3)), rtol=1e-5)
        (widest,) = [
            row
            for row in rows
            if (row.tensor, row.split, row.candidate) == (tensor, "calibration", "minmax")
        ]
        assert widest.high >= values[tensor].max() - (widest.high - widest.low) / 255
        assert ranges.of(tensor).reason  # `auto` says why
