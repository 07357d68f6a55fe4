"""Production samples: single records with nothing usable are left out and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.production import Production, production_of
from quantflow.config import SourceConfig, check_config
from quantflow.errors import QuantflowError

_INPUT = TensorInfo(name="x", dtype="float32", shape=("batch", 4))


def _made(folder: Path, values: np.ndarray, count: int) -> Production:
    (folder / "m.onnx").touch()
    np.savez(folder / "c.npz", x=values)
    source = {"kind": "npz", "path": "c.npz"}
    config = check_config(
        {"model": {"onnx": "m.onnx"}, "set": {"candidates": source}}, base=folder
    ).config
    given = (SourceConfig(kind="npz", path="c.npz"), count, config, folder, (_INPUT,), None, "")
    made = production_of(*given)
    assert production_of(*given).profile.samples == made.profile.samples
    return made


def _values(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


def test_records_with_nan_are_left_out_and_named(tmp_path: Path) -> None:
    values = _values(50)
    values[[7, 31], 2] = np.nan, np.inf
    made = _made(tmp_path, values, 500)
    assert made.profile.samples == 48
    assert "; 2 left out, empty or not finite: deployment[" in made.profile.source
    assert all(f"deployment[{i}]" in made.profile.source for i in (7, 31))
    (found,) = [x for x in made.hygiene.findings if x.kind == "not-finite"]
    assert found.samples == ("deployment[7]", "deployment[31]") and found.verdict == "warn"
    assert made.hygiene.sets[0].unfit == 2


def test_others_are_drawn_in_their_place(tmp_path: Path) -> None:
    values = _values(50)
    values[::2] = np.nan
    made = _made(tmp_path, values, 20)
    assert made.profile.samples == 20
    assert len(made.profile.source) < 200


def test_repeats_of_production_are_told(tmp_path: Path) -> None:
    values = _values(50)
    values[10:30] = values[0]
    made = _made(tmp_path, values, 500)
    (found,) = [x for x in made.hygiene.findings if x.kind == "exact-duplicates"]
    assert found.count == 20 and found.set == "deployment"
    assert "left out" not in made.profile.source


def test_nothing_but_nan_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match="20 are empty or not finite"):
        _made(tmp_path, np.full((20, 4), np.nan, np.float32), 20)
