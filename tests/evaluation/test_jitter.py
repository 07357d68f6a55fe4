"""A model that does not repeat itself: what it is off from itself is jitter, not error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.evaluation import sides
from tests.evaluation.exported_encoder import compare, export_encoder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"), blocks=1)


NOISE = np.random.default_rng(0)


class Restless(sides.ModelSource):
    """Adds noise to one tensor, another one at every run."""

    def fetch(self, batch: Any) -> dict[str, np.ndarray]:
        found = dict(self.runner.run(batch.feeds))
        if "F0d" in found:
            found["F0d"] = found["F0d"] + NOISE.normal(size=found["F0d"].shape)
        return found


def test_noise_shows_as_jitter_and_is_told_from_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "ModelSource", Restless)
    found = compare(config, "fp32", "fp16", limit=2, repeat=12)
    row = next(x for x in found.points if x.name == "n_F0d")
    assert row.cosine < 0.99  # an error that is far beyond what is asked of fp16
    assert row.jitter_max_abs is not None and row.jitter_max_abs >= row.max_abs_error
    assert row.jitter_cosine is not None and row.jitter_cosine > 0.01
    assert row.beyond == "" and found.verdict == "pass"
    others = [x for x in found.points if x.name != "n_F0d"]
    assert {x.jitter_max_abs for x in others} == {0.0}


def test_without_repetition_nothing_is_known_of_jitter(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "ModelSource", Restless)
    found = compare(config, "fp32", "fp16", limit=2, repeat=1)
    row = next(x for x in found.points if x.name == "n_F0d")
    assert row.jitter_max_abs is None and row.beyond and found.verdict == "fail"


def test_a_nan_of_the_second_run_alone_fails(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    class Flickering(sides.ModelSource):
        def fetch(self, batch: Any) -> dict[str, np.ndarray]:
            runs.append(1)
            found = dict(self.runner.run(batch.feeds))
            # Of two sides that run in turns, the third run is the first one again.
            return {k: np.where(len(runs) == 3, np.nan, v) for k, v in found.items()}

    monkeypatch.setattr(sides, "ModelSource", Flickering)
    found = compare(config, "fp32", "int8", limit=2)
    assert len(runs) >= 4 and found.verdict == "fail"
    assert all("a repeated run" in x for x in found.reasons[:5]), found.reasons
