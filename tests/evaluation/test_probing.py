"""What a probe's answer means depends on what the run relies on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.om_run import ProbeAnswer
from quantflow.ascend.probe_cases import probe_cases
from quantflow.config import Config
from quantflow.evaluation.probing import ask_probes, probe_reasons
from quantflow.progress import no_progress

CASES = {case.name: case for case in probe_cases()}


class Chip:
    """Gives one output, whatever it is given; closed once."""

    def __init__(self, output: np.ndarray) -> None:
        self.output, self.closed = output, 0

    def run(self, feeds: Any) -> dict[str, np.ndarray]:
        assert list(feeds) == ["x"]
        return {"y": self.output}

    def close(self) -> None:
        self.closed += 1


def config(**sections: Any) -> Config:
    given = {"model": {"onnx": "m.onnx"}, "set": {"candidates": {"kind": "npz", "path": "a.npz"}}}
    return Config.model_validate({**given, **sections})


def answer(name: str, hypothesis: str, of: Config) -> ProbeAnswer:
    chip = Chip(CASES[name].hypotheses[hypothesis].astype(np.float16))
    (found,) = ask_probes([(CASES[name], Path("p.om"))], lambda _: chip, of, no_progress)  # type: ignore[arg-type,return-value]
    assert chip.closed == 1
    return found


@pytest.mark.parametrize(
    ("name", "hypothesis", "quantization", "fails"),
    [
        ("probe_per_channel", "the first scale for all channels", {}, True),
        (
            "probe_per_channel",
            "the first scale for all channels",
            {"weight_granularity": "per-tensor"},
            False,
        ),
        (
            "probe_per_channel",
            "the first scale for all channels",
            {
                "weight_granularity": "per-tensor",
                "overrides": [{"role": "ffn", "weight_granularity": "per-channel"}],
            },
            True,
        ),
        ("probe_matmul_offset", "not made up for", {}, True),
        ("probe_matmul_offset", "not made up for", {"symmetric": True}, False),
        ("probe_conv_padding", "padded with 0, made up for", {"symmetric": True}, False),
        ("probe_conv_padding", "padded with 0, made up for", {}, True),
        ("probe_rounding", "half up", {"symmetric": True}, True),
        ("probe_rounding", "half to even", {}, False),
    ],
)
def test_another_answer_fails_a_run_that_relies_on_it(
    name: str, hypothesis: str, quantization: dict[str, Any], fails: bool
) -> None:
    found = answer(name, hypothesis, config(quantization=quantization))
    reasons = probe_reasons([found])
    assert bool(reasons) == fails
    if fails:
        assert hypothesis in reasons[0] and found.meaning in reasons[0]


def test_what_is_assumed_of_the_scales_bits_is_what_the_configuration_says() -> None:
    cut, full = CASES["probe_scale_bits"].hypotheses
    for fp19 in (True, False):
        of = config(target={"fp19_dequant": fp19})
        for hypothesis, holds in ((cut, fp19), (full, not fp19)):
            reasons = probe_reasons([answer("probe_scale_bits", hypothesis, of)])
            assert (reasons == []) == holds
            if reasons:
                setting = "true" if hypothesis == cut else "false"
                assert f"target.fp19_dequant = {setting}" in reasons[0]


def test_a_model_that_fails_is_closed() -> None:
    class Failing(Chip):
        def run(self, feeds: Any) -> dict[str, np.ndarray]:
            raise RuntimeError("no")

    chip, case = Failing(np.zeros(1)), CASES["probe_rounding"]
    with pytest.raises(RuntimeError):
        ask_probes([(case, Path("p.om"))], lambda _: chip, config(), no_progress)  # type: ignore[arg-type,return-value]
    assert chip.closed == 1
