# pyright: reportUnknownVariableType=false
"""MiniLM and what stage 2 does with it, for the benchmark of calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.ranges_record import Split
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import sample_digest
from quantflow.calibration.draw import Pool, draw, shuffled
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.config import QuantizationConfig, RuntimeConfig, load_config
from quantflow.graph.edit import constant, values_by_name, with_outputs
from quantflow.graph.layer_settings import LayerSettings, layer_settings
from quantflow.graph.model_io import load_model
from quantflow.ranges.choose_ranges import choose_ranges
from quantflow.ranges.collect import Collection, collect
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner
from quantflow.runtime.workers import ALONE, Workers
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.user_code import load_function

SET = Path(__file__).parents[1] / "calibration_sets" / "minilm_wikipedia"
SOURCES: dict[Split, str] = {
    "calibration": "data:calibration_paragraphs",
    "heldout": "data:deployment_paragraphs",
}
TEXTS, LENGTH, BATCH = 64, 128, 8

Sample = dict[str, NDArray[Any]]
Texts = dict[Split, Sequence[Sample]]


@dataclass(frozen=True)
class Calibrator:
    """The model, and a session that gives the tensors to be quantized."""

    path: Path
    record: ModelRecord
    runner: Runner
    values: Mapping[str, ir.Value]
    settings: LayerSettings

    @classmethod
    def of(cls, path: Path, config: RuntimeConfig | None = None) -> Calibrator:
        """From a folder that stage 0 wrote."""
        record = ModelRecord.read(path / "model.json")
        settings = layer_settings(record, QuantizationConfig(estimator="auto"))
        model = load_model(path / "model.onnx")
        runner = OnnxRuntimeRunner(with_outputs(model, record.tensors), config)
        return cls(path / "model.onnx", record, runner, values_by_name(model), settings)

    def collect(self, samples: Sequence[Sample], rows: int, workers: Workers = ALONE) -> Collection:
        """What stage 2 keeps of some samples."""
        names = [str(index) for index in range(len(samples))]
        return collect(
            self.runner,
            samples,
            ids=names,
            digests=[sample_digest(sample) for sample in samples],
            tensors=self.record.tensors,
            padding={entry.tensor: entry.layout for entry in self.record.padding},
            mask_name=self.record.mask.name if self.record.mask else None,
            batch=BATCH,
            rows=rows,
            workers=workers,
        )

    def calibrate(self, texts: Texts, workers: Workers = ALONE) -> dict[Split, Collection]:
        """Statistics, ranges and clipping report."""

        def weight_of(layer: Layer) -> NDArray[np.float32]:
            weight = constant(self.values[layer.weight])
            assert weight is not None
            return weight.numpy()

        seen: dict[Split, Collection] = {
            split: self.collect(samples, 256 if split == "calibration" else 0, workers)
            for split, samples in texts.items()
        }
        choose_ranges(self.record, weight_of, seen, self.settings, workers=workers)
        return seen


def prepared(directory: Path) -> tuple[Path, Texts]:
    """The folder of the canonical model, and texts that fill all positions."""
    loaded = load_config(SET / "quantflow.toml", [f"run.directory={directory / 'run'}"])
    context = Context(loaded, RunDirectory(loaded.run_directory))
    run_stage(context, MODEL)
    folder, settings = context.folder("00_model"), loaded.config.set.preprocess
    record = ModelRecord.read(folder / "model.json")
    preprocess = make_preprocessor(settings, record.inputs, SET)
    texts: Texts = {}
    for split, function in SOURCES.items():
        records = load_function(function, SET)()
        pool = Pool(split, records, shuffled(len(records), seed=0, stream=0), settings.column)
        drawn = draw(pool, 6 * TEXTS, preprocess)
        filled = [x for x in drawn.samples if x["attention_mask"].all()]
        texts[split] = filled[:TEXTS]
    return folder, texts


def save_texts(folder: Path, texts: Texts) -> None:
    """Write texts beside a model, for the processes that read them."""
    for split, samples in texts.items():
        stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
        save_file(stacked, folder / f"{split}.safetensors")


def load_texts(folder: Path) -> Texts:
    """What `save_texts` wrote."""
    texts: Texts = {}
    for split in SOURCES:
        arrays = load_file(folder / f"{split}.safetensors")
        texts[split] = [{name: array[i] for name, array in arrays.items()} for i in range(TEXTS)]
    return texts
