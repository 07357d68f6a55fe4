"""All features of samples: those of the inputs, token counts, and what the model makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.features.extract import Extractor, Sample
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.features.tokens import unknown_id
from quantflow.config import PreprocessConfig, resolve_path
from quantflow.progress import Progress, no_progress
from quantflow.ranges.collect import TensorStatistics


def extractor_of(settings: PreprocessConfig, inputs: Sequence[TensorInfo], base: Path) -> Extractor:
    """What measures the samples that `settings` makes.

    Args:
        settings: of the preprocessing.
        inputs: of the model, with the batch axis.
        base: directory that relative paths start from.
    """
    name = settings.tokenizer
    unknown = unknown_id(resolve_path(name, base)) if name is not None else None
    return Extractor(tuple(inputs), settings.column, unknown)


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples with all their features.

    Attributes:
        table: the features, those of the model last.
        inputs: how many scalar features need no model.
        tensors: statistics of the model's tensors; empty without it.
    """

    table: FeatureTable
    inputs: int
    tensors: Mapping[str, TensorStatistics]


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures samples.

    Attributes:
        extract: features of the inputs.
        model: features of the model, or None to do without.
        digest: of the model's file; empty without it.
    """

    extract: Extractor
    model: ModelFeatures | None = None
    digest: str = ""

    def __call__(
        self,
        table: FeatureTable,
        samples: Sequence[Sample],
        label: str,
        progress: Progress = no_progress,
    ) -> Measured:
        """Complete the features of some samples.

        Args:
            table: what `extract` found.
            samples: their arrays.
            label: what the samples are, for progress.
            progress: called while the model runs.
        """
        counted = self.extract.with_counts(table, samples)
        if self.model is None:
            return Measured(counted, len(table.names), {})
        space = self.model(samples, table.ids, table.digests, label, progress)
        whole = counted.with_scalars(space.names, space.values)
        return Measured(whole, len(table.names), space.tensors)
