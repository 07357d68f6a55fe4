"""SmolLM2-135M: what fp16 and INT8 cost in perplexity, and what calibration costs in time.

Rows of 512 tokens of Wikipedia: 16 for calibration, 16 held out, 16 to be judged by, each from
other articles. The float model is the package's 4-bit file, dequantized. fp16 is emulated, INT8 is
the deploy model lowered to integer operators, all 211 layers quantized, FP19 and fp16 rounding
included.

Timed is all that stage 2 measures: inference of the calibration and the held-out rows, statistics
of 121 tensors, every estimator, the choice of `auto`, the clipping report, and the fp16 report of
1,800 tensors on the 16 calibration rows once more. It is compared with plain inference of as many
rows, taken right before and after, since other processes may use the machine. Not timed: writing
files. Peak memory is that of this process while it measures, weights included.

    python benchmarks/language_model.py [--rows N] [--json FILE]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import onnx_ir as ir
from _harness import Figure, finish, parser
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Tensor, RangesRecord, TensorRange
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.calibration.build import build_sets
from quantflow.config import QuantizationConfig, load_config
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.lowering import lower
from quantflow.graph.bucket import bucket_model
from quantflow.graph.edit import constant, values_by_name
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.model_io import load_model, weight_bytes
from quantflow.graph.passes.emulate_fp16 import emulate_fp16
from quantflow.ranges.choose_ranges import choose_ranges
from quantflow.runtime.bucket_run import bucket_batches
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.sensitivity.policy import default_plan
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.work_2_ranges import Measured, measure
from quantflow.tasks.figures import Figures
from quantflow.tasks.metrics import Judged, perplexity_metric

CONFIG = Path(__file__).parents[1] / "calibration_sets" / "smollm2_wikipedia" / "quantflow.toml"
HEAVY_TAILS = (11, 28)
"""Layers whose down_proj reads values in the thousands."""


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    options = parser(__doc__ or "")
    options.add_argument("--rows", type=int, default=16, metavar="N", help="rows of each set")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench.prepared(Path(directory), chosen.rows)
        figures, measured = bench.calibration_figures()
        figures += bench.fp16_figures(measured) + bench.perplexity_figures(measured)
    title = f"SmolLM2-135M, {chosen.rows} rows of 512 tokens in each set"
    return finish(title, figures, chosen.json)


@dataclass(frozen=True)
class Bench:
    """The model prepared, and its sets drawn.

    Attributes:
        context: configuration and run directory.
        record: the model's layers.
        model: its static bucket.
    """

    context: Context
    record: ModelRecord
    model: ir.Model

    @classmethod
    def prepared(cls, directory: Path, rows: int) -> Bench:
        """Run stage 0 and draw the sets, which nothing of is measured."""
        names = ("samples", "heldout_samples", "evaluation_samples")
        overrides = [f'run.directory="{directory}"', "set.deployment_samples=1"]
        loaded = load_config(CONFIG, [*overrides, *(f"set.{name}={rows}" for name in names)])
        context = Context(loaded, RunDirectory(loaded.run_directory))
        run_stage(context, MODEL)
        record = ModelRecord.read(context.folder("00_model") / "model.json")
        build_sets(loaded.config, loaded.base, record.inputs, context.folder("10_set"))
        model = load_model(context.folder("00_model") / "model.onnx")
        return cls(context, record, bucket_model(model, loaded.config.target.buckets[0]))

    def samples(self, name: str) -> SampleSet:
        """One of the sets."""
        return SampleSet(self.context.folder("10_set") / name)

    def feeds(self, name: str) -> Iterator[tuple[int, dict[str, NDArray[np.int64]]]]:
        """Position and inputs of every row of a set, a batch of one."""
        for batch in bucket_batches(self.samples(name), self.record, self._dims):
            yield batch.indices[0], batch.feeds

    @property
    def _dims(self) -> Mapping[str, int]:
        return self.context.config.target.buckets[0]

    def calibration_figures(self) -> tuple[list[Figure], Measured]:
        """Time and memory of stage 2."""
        before = self._inference_seconds()
        forget_peak()
        start = time.perf_counter()
        measured = measure(self.context)
        seconds = time.perf_counter() - start
        peak = peak_bytes()
        rows = 3 * len(self.samples("calibration"))
        plain = rows * (before + self._inference_seconds()) / 2
        return [
            Figure("plain inference of a row, s", plain / rows),
            Figure(f"plain inference of {rows} rows, s", plain),
            Figure("calibration with every report, s", seconds),
            Figure("calibration / inference", seconds / plain, 2, "at most"),
            Figure("peak memory of calibration, MiB", peak / 2**20),
            Figure("peak memory / weights", peak / weight_bytes(self.model)),
        ], measured

    def _inference_seconds(self) -> float:
        """Mean wall-clock seconds of a row, after one that is not counted."""
        path = self.context.folder("00_model") / "model.onnx"
        runner = OnnxRuntimeRunner(path, self.context.config.runtime)
        rows = [feeds for _, feeds in self.feeds("calibration")]
        runner.run(rows[0])
        start = time.perf_counter()
        for feeds in rows:
            runner.run(feeds)
        return (time.perf_counter() - start) / len(rows)

    def fp16_figures(self, measured: Measured) -> list[Figure]:
        """What fp16 cannot hold, and the tails that INT8 has to deal with."""
        products = {layer.node for layer in self.record.layers}
        overflowing = [x for x in measured.fp16.tensors if x.overflow]
        heavy = [f"model.layers.{index}.mlp.down_proj" for index in HEAVY_TAILS]
        tensors = {layer.name: layer.input for layer in self.record.layers}
        absmax = {x.tensor: x.absmax for x in measured.fp16.tensors}
        return [
            Figure("tensors beyond fp16, Pow", count(overflowing, "Pow"), 1),
            Figure("tensors beyond fp16, ReduceMean", count(overflowing, "ReduceMean"), 1),
            Figure(
                "tensors beyond fp16, outputs of layers",
                sum(x.node in products for x in overflowing),
                0,
                "at most",
            ),
            Figure("nodes in fp32 islands", len(measured.fp16.islands)),
            *(Figure(f"largest input of {name}", absmax[tensors[name]]) for name in heavy),
        ]

    def perplexity_figures(self, measured: Measured) -> list[Figure]:
        """Perplexity of every precision, one model after the other."""
        plan = default_plan(self.record, measured.fp16, ())
        fp32 = self._perplexity(self.model)
        plain = self._perplexity(emulate_fp16(self.model, frozenset()))
        islands = self._perplexity(emulate_fp16(self.model, plan.island_nodes))
        auto = self._perplexity(self._int8(plan, _record(measured.ranges)))
        minmax = self._perplexity(self._int8(plan, self._minmax(measured)))
        risen = {"auto": auto / fp32 - 1, "min-max": minmax / fp32 - 1}
        return [
            Figure("perplexity, fp32", fp32),
            Figure("perplexity, fp16 with islands", islands),
            Figure("  rise, %", 100 * (islands / fp32 - 1), 0.5, "at most"),
            Figure("perplexity, plain fp16", plain),
            Figure("  times that of fp32", plain / fp32, 10),
            Figure("perplexity, all INT8, min-max", minmax),
            Figure("  rise, %", 100 * risen["min-max"]),
            Figure("perplexity, all INT8, auto", auto),
            Figure("  rise, %", 100 * risen["auto"], 60, "at most"),
            Figure("rise of auto / of min-max", risen["auto"] / risen["min-max"], 1, "at most"),
        ]

    def _perplexity(self, model: ir.Model) -> float:
        runner = OnnxRuntimeRunner(model, self.context.config.runtime)
        figures = Figures(perplexity_metric("input_ids"), len(self.samples("evaluation")))
        for index, feeds in self.feeds("evaluation"):
            (logits,) = runner.run(feeds).values()
            inputs = {"input_ids": feeds["input_ids"][0]}
            figures.add(index, Judged(str(index), inputs, {}, {"logits": logits[0]}))
        return figures.metric.over_samples(figures.values, figures.weights)

    def _int8(self, plan: PrecisionPlan, ranges: RangesRecord) -> ir.Model:
        config = self.context.config
        granularity = layer_settings(self.record, config.quantization).granularity
        factors = layer_factors(self.model, self.record, ranges, plan, granularity)
        deploy = deploy_model(self.model, self.record, factors)
        fp19 = config.target.fp19_dequant
        return lower(deploy, fp19=fp19, emulate_fp16=True, islands=plan.island_nodes)

    def _minmax(self, measured: Measured) -> RangesRecord:
        """Ranges by another estimator, of the same statistics."""
        values = values_by_name(self.model)

        def weight_of(layer: Layer) -> NDArray[np.float32]:
            return cast(ir.TensorProtocol, constant(values[layer.weight])).numpy()

        settings = layer_settings(self.record, QuantizationConfig(estimator="minmax"))
        ranges, _ = choose_ranges(self.record, weight_of, measured.seen, settings)
        return _record(ranges)


def _record(ranges: Sequence[TensorRange]) -> RangesRecord:
    return RangesRecord(ranges=tuple(ranges), nonfinite=())


def count(tensors: Sequence[Fp16Tensor], op_type: str) -> int:
    """How many of the tensors nodes of a type write."""
    return sum(tensor.op_type == op_type for tensor in tensors)


def forget_peak() -> None:
    """Have the kernel measure the peak of this process's memory anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Most memory that this process had since, pages of mapped files included."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    sys.exit(main())
