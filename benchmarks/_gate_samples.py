"""Features of the samples that the gate is measured on, with all-MiniLM-L6-v2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.calibration.draw import Batch, Pool, draw, shuffled
from quantflow.calibration.features.measure import Measurer, extractor_of
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.calibration.profile.profile import Profile, make_profile
from quantflow.config import load_config
from quantflow.graph.model_io import load_model
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.user_code import load_function

SETS = Path(__file__).parents[1] / "calibration_sets"
SOURCES = {
    "prose": ("english_prose", "data:candidate_paragraphs"),
    "deployment prose": ("english_prose", "data:deployment_paragraphs"),
    "code": ("python_code", "data:candidate_functions"),
    "chinese": ("chinese_text", "data:candidate_paragraphs"),
    "short": ("english_prose", "lengths:short_candidates"),
    "long": ("english_prose", "lengths:long_deployment"),
}
SAMPLES = 500
"""Samples of every source, which the draws are made from."""
SIZE = 200
"""Samples of a draw."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Features of every source, and how many of them need no model."""

    by_name: dict[str, FeatureTable]
    inputs: int

    def drawn(self, name: str, seed: int, size: int = SIZE, skip: int = 0) -> FeatureTable:
        """Some of a source's samples, by chance; with `skip`, others than those."""
        table = self.by_name[name]
        order = np.random.default_rng([seed, 2]).permutation(len(table))
        return table.take(order[skip : skip + size])

    def profile(self, table: FeatureTable) -> Profile:
        """The profile of a deployment sample."""
        return make_profile(table, self.inputs)


def measure_samples(directory: Path) -> Tables:
    """Features of `SAMPLES` samples of every source, from the demo's own model and settings."""
    config = SETS / "english_prose" / "quantflow.toml"
    loaded = load_config(config, [f'run.directory="{directory / "minilm"}"'])
    context = Context(loaded, RunDirectory(loaded.run_directory))
    run_stage(context, MODEL)
    folder, settings = context.folder("00_model"), loaded.config.set.preprocess
    record = ModelRecord.read(folder / "model.json")
    buckets = loaded.config.target.buckets
    model = ModelFeatures.of(
        load_model(folder / "model.onnx"), record, loaded.config.runtime, buckets
    )
    measure = Measurer(extractor_of(settings, record.inputs, loaded.base), model)
    preprocess = make_preprocessor(settings, record.inputs, loaded.base)
    tables, inputs = dict[str, FeatureTable](), 0
    for number, (name, (folder_name, function)) in enumerate(SOURCES.items()):
        records: Sequence[Any] = load_function(function, SETS / folder_name)()
        parts: list[FeatureTable] = []

        def observe(batch: Batch, parts: list[FeatureTable] = parts) -> None:
            parts.append(measure.extract(batch))

        pool = Pool(name, records, shuffled(len(records), seed=0, stream=number), settings.column)
        drawn = draw(pool, min(SAMPLES, len(records)), preprocess, observe=observe)
        measured = measure(concatenate(parts), drawn.samples, name)
        tables[name], inputs = measured.table, measured.inputs
    return Tables(tables, inputs)
