"""Every stage that runs is noted with the configuration, versions and session it ran with."""

from __future__ import annotations

import platform

import numpy as np
import onnxruntime as ort

from quantflow.artifacts.provenance import read_provenance
from quantflow.artifacts.run_directory import RunDirectory

from .conftest import RunStages


def test_a_stage_is_noted_when_it_runs_and_only_then(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages("00_model", "10_set")
    first = read_provenance(run.root)
    assert set(first.stages) == {"00_model", "10_set"} and len(first.configurations) == 1
    (outcome,) = run_stages("00_model", change="set.samples=11")
    assert not outcome.ran and read_provenance(run.root) == first
    run_stages("10_set", change="set.samples=11")
    found = read_provenance(run.root)
    in_force = {name: found.configurations[x.configuration] for name, x in found.stages.items()}
    assert in_force["10_set"]["set"]["samples"] == 11
    assert in_force["00_model"]["set"]["samples"] != 11
    assert all("directory" not in configuration["run"] for configuration in in_force.values())


def test_the_note_is_of_this_interpreter_and_these_results(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages("00_model")
    made, manifest = read_provenance(run.root).stages["00_model"], run.manifest("00_model")
    assert manifest is not None and made.outputs == manifest.digest
    assert made.versions["python"] == platform.python_version()
    assert made.versions["numpy"] == np.__version__
    assert made.versions["onnxruntime"] == ort.__version__
    assert made.session["provider"] == "CPUExecutionProvider"
    assert made.session["session.x64quantprecision"] == "1"
