"""From a record to one array per model input: tokenizer, user's function, or its own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from quantflow import user_code
from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.sample_check import check_sample
from quantflow.calibration.text import TextEncoder
from quantflow.config import PreprocessConfig, resolve_path
from quantflow.errors import did_you_mean, fail

Record = Mapping[str, Any]
Convert = Callable[[Record, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Turns records into samples that fit a model.

    Attributes:
        inputs: the model's inputs, with the batch axis.
        convert: maps a record and its sample id to arrays by input name, without the batch axis.
        notes: what a person should know about the conversion.
    """

    inputs: tuple[TensorInfo, ...]
    convert: Convert
    notes: tuple[str, ...] = ()

    def __call__(self, record: Record, sample: str) -> dict[str, NDArray[Any]]:
        """The checked sample of a record.

        Args:
            record: one record of a source.
            sample: its id, for error messages.

        Raises:
            QuantflowError: QF303 to QF307 or QF315, naming the sample.
        """
        return check_sample(self.convert(record, sample), self.inputs, sample)

    @property
    def chunk(self) -> int:
        """Records that are best preprocessed together: progress shows after that many."""
        return 256 if isinstance(self.convert, TextEncoder) else 16

    def many(
        self, records: Sequence[Record], samples: Sequence[str]
    ) -> list[dict[str, NDArray[Any]]]:
        """The checked samples of some records: the same, and faster where a tokenizer makes them.

        Args:
            records: of a source.
            samples: their ids, for error messages.

        Raises:
            QuantflowError: QF303 to QF307 or QF315, naming the sample.
        """
        if isinstance(self.convert, TextEncoder):
            made = self.convert.encode_many(records, samples)
            pairs = zip(made, samples, strict=True)
            return [check_sample(arrays, self.inputs, sample) for arrays, sample in pairs]
        return [self(record, sample) for record, sample in zip(records, samples, strict=True)]


def make_preprocessor(
    config: PreprocessConfig, inputs: Sequence[TensorInfo], base: Path
) -> Preprocessor:
    """The preprocessor that the configuration describes, for a model with `inputs`.

    Raises:
        QuantflowError: QF105 when the function cannot be imported, QF305 when the tokenizer cannot
            be read or cannot fill the model's inputs.
    """
    if config.tokenizer is not None:
        path = resolve_path(config.tokenizer, base)
        encoder = TextEncoder.load(path, config, inputs)
        return Preprocessor(tuple(inputs), encoder, encoder.notes)
    if config.function is not None:
        function = user_code.load_function(config.function, base)
        return Preprocessor(tuple(inputs), _calling(function, config.function))
    return Preprocessor(tuple(inputs), _columns([tensor.name for tensor in inputs]))


def preprocess_digest(config: PreprocessConfig, base: Path) -> str:
    """Digest of the settings and of the tokenizer file or function source that they name."""
    parts = [config.model_dump(mode="json")]
    if config.tokenizer is not None:
        parts.append({"tokenizer": file_digest(resolve_path(config.tokenizer, base))})
    if config.function is not None:
        parts.append({"function": user_code.source_digest(config.function, base)})
    return value_digest(parts)


def preview(record: Record, column: str, length: int = 60) -> str:
    """The first characters of a record's text, on one line; an image's file name; else nothing."""
    value = record.get(column)
    if not isinstance(value, str):
        file = getattr(record.get("image"), "filename", None)
        return Path(file).name if isinstance(file, str) else ""
    line = " ".join(value.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _calling(function: Callable[..., Any], name: str) -> Convert:
    def convert(record: Record, sample: str) -> Mapping[str, Any]:
        try:
            arrays: object = function(record)
        except (Exception, SystemExit) as error:
            what = f"{name} raised {type(error).__name__} on {sample}: {error}"
            fail("QF304", what, where=sample)
        if not isinstance(arrays, Mapping):
            what = f"{name} must return one array per input, by name, not {type(arrays).__name__}"
            fail("QF304", what, where=sample)
        return cast(Mapping[str, Any], arrays)

    return convert


def _columns(names: Sequence[str]) -> Convert:
    def convert(record: Record, sample: str) -> Mapping[str, Any]:
        for name in names:
            if record.get(name) is None:
                what = f"{sample} has no column {name!r}, which the model takes as an input"
                fail("QF303", what, where=sample, fix=did_you_mean(name, map(str, record)))
        return {name: record[name] for name in names}

    return convert
