"""Ranges that might be in force instead: of deployment samples, or of each estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from quantflow.artifacts.diagnosis_record import OtherRanges
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord, Split, TensorRange
from quantflow.graph.layer_settings import LayerSettings, layer_settings
from quantflow.graph.model_io import load_model
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.by_estimator import ranges_by
from quantflow.ranges.choose_ranges import JUDGED_ROWS, choose_range, weights_of_layers
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.estimators import ESTIMATORS
from quantflow.ranges.grid import Histogram
from quantflow.ranges.histogram_file import load_histograms
from quantflow.ranges.saturation import certainly_beyond, outside_fraction
from quantflow.sensitivity.ledger import Ledger
from quantflow.stages.collecting import collect_split, open_tensors
from quantflow.stages.stage import Context


@dataclass(frozen=True)
class RangeSource:
    """Measures ranges of the model that is quantized.

    Attributes:
        context: alone.
        record: of that model.
        in_force: its ranges.
        ledger: what was measured before, as before a kill, is not measured again.
    """

    context: Context
    record: ModelRecord
    in_force: RangesRecord
    ledger: Ledger

    @cached_property
    def settings(self) -> LayerSettings:
        return layer_settings(self.record, self.context.config.quantization)

    @cached_property
    def model(self) -> ir.Model:
        return load_model(self.context.quantized_model / "model.onnx")

    def deployment(self) -> OtherRanges:
        """The configured estimators on the held-out samples, which are those of deployment."""
        return self._noted("deployment", self._deployment)

    def estimators(self) -> OtherRanges:
        """Every estimator on the calibration set, but one whose ranges are in force already."""
        return self._noted("estimators", self._estimators)

    def _noted(self, name: str, measured: Callable[[], OtherRanges]) -> OtherRanges:
        found = self.ledger.recall(f"ranges\n{name}", lambda: measured().to_tree())
        return OtherRanges.model_validate(found)

    def _deployment(self) -> OtherRanges:
        judged = any(x.estimator == "auto" for x in self.settings.tensors.values())
        seen = self._collected("heldout", JUDGED_ROWS if judged else 0)
        weight_of, ranges = weights_of_layers(self.model), list[TensorRange]()
        for done, (tensor, statistics) in enumerate(seen.items()):
            self.context.progress("ranges of deployment", done, len(seen))
            args = (self.record, tensor, weight_of, statistics, self.settings)
            ranges.append(choose_range(*args))
        self.context.progress("ranges of deployment", len(seen), len(seen))
        clipped = self._clipped({name: x.histogram for name, x in seen.items()})
        return OtherRanges(by_name={"deployment": tuple(ranges)}, clipped=clipped)

    def _estimators(self) -> OtherRanges:
        histograms = self._histograms()
        bounds = {x.tensor: (x.low, x.high) for x in self.in_force.ranges}
        by_name = dict[str, tuple[TensorRange, ...]]()
        for done, name in enumerate(ESTIMATORS):
            self.context.progress("ranges of the estimators", done, len(ESTIMATORS))
            found = ranges_by(name, histograms, self.settings.tensors)
            if any((x.low, x.high) != bounds[x.tensor] for x in found):
                by_name[name] = found
        self.context.progress("ranges of the estimators", len(ESTIMATORS), len(ESTIMATORS))
        return OtherRanges(by_name=by_name, clipped=self._clipped(histograms))

    def _histograms(self) -> Mapping[str, Histogram]:
        """Those of stage 2, or where the optimization changed the model, collected anew."""
        stage_2 = self.context.folder("20_ranges")
        if self.context.quantized_ranges == stage_2:
            return load_histograms(stage_2 / "histograms.safetensors")["calibration"]
        seen = self._collected("calibration", 0)
        return {name: statistics.histogram for name, statistics in seen.items()}

    def _collected(self, split: Split, rows: int) -> dict[str, TensorStatistics]:
        tensors: Sequence[str] = self.record.tensors
        opened = open_tensors(self.context, self.model, self.record, tensors)
        found = collect_split(self.context, opened, self.record, split, tensors, rows)
        return found.tensors

    def _clipped(self, histograms: Mapping[str, Histogram]) -> dict[str, float]:
        """Share of the values of each tensor that the ranges in force clip."""
        clipped = dict[str, float]()
        for entry in self.in_force.ranges:
            # Zero is always among the levels.
            bounds = Bounds(min(entry.low, 0.0), max(entry.high, 0.0))
            found = histograms[entry.tensor]
            clipped[entry.tensor] = outside_fraction(found, certainly_beyond(bounds))
        return clipped
