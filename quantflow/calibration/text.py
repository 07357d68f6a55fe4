# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Text to token ids with a `tokenizer.json`. The only module that imports `tokenizers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.config import PreprocessConfig
from quantflow.errors import Problem, QuantflowError, did_you_mean, fail

if TYPE_CHECKING:
    from tokenizers import Tokenizer

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"

_PAD_TOKENS: Final = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "</s>")
"""Tokens that models pad with, where the file itself does not say."""


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Fills the inputs of a text model.

    Attributes:
        tokenizer: with truncation and padding set.
        column: column of a record that holds its text.
        fields: what every input is filled with: ids, mask or types.
        notes: what a person should know.
    """

    tokenizer: Tokenizer
    column: str
    fields: Mapping[str, str]
    notes: tuple[str, ...]

    @classmethod
    def load(
        cls, path: Path, config: PreprocessConfig, inputs: Sequence[TensorInfo]
    ) -> TextEncoder:
        """Read a tokenizer.json and set it up.

        Raises:
            QuantflowError: QF305 when the file is not one, when it has no token to pad with, or
                when the model has inputs that a tokenizer does not make.
        """
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            fail("QF305", f"not a readable tokenizer.json: {error}", where=str(path))
        tokenizer.enable_truncation(config.max_length, **_truncation_options(tokenizer))
        if config.pad == "none":
            tokenizer.no_padding()
        else:
            tokenizer.enable_padding(length=config.max_length, **_padding_options(tokenizer, path))
        fields = _fields(inputs, config.names)
        notes = () if config.pad == "none" else _mask_notes(inputs, fields)
        return cls(tokenizer, config.column, fields, notes)

    def __call__(self, record: Mapping[str, Any], sample: str) -> dict[str, NDArray[np.int64]]:
        """Token ids, attention mask and token types of a record's text, each ``(length,)`` int64.

        Raises:
            QuantflowError: QF303 when the record has no text, QF307 when no token remains.
        """
        return self.encode_many([record], [sample])[0]

    def encode_many(
        self, records: Sequence[Mapping[str, Any]], samples: Sequence[str]
    ) -> list[dict[str, NDArray[np.int64]]]:
        """The same for some records at once, which the tokenizer shares out to all processors.

        Args:
            records: with texts.
            samples: their ids, for error messages.

        Raises:
            QuantflowError: as for one.
        """
        texts = [text_of(x, self.column, name) for x, name in zip(records, samples, strict=True)]
        found: list[dict[str, NDArray[np.int64]]] = []
        for encoding, sample in zip(self.tokenizer.encode_batch(texts), samples, strict=True):
            if not any(encoding.attention_mask):
                what = f"{sample} has no token: its text is empty"
                fail("QF307", what, where=sample, fix="remove empty records from the source")
            made = {IDS: encoding.ids, MASK: encoding.attention_mask, TYPES: encoding.type_ids}
            found.append({x: np.array(made[field], np.int64) for x, field in self.fields.items()})
        return found


def _mask_notes(inputs: Sequence[TensorInfo], fields: Mapping[str, str]) -> tuple[str, ...]:
    """What makes padding look like text, if anything does."""
    if any(tensor.mask for tensor in inputs):
        return ()
    unmarked = [name for name, field in fields.items() if field == MASK]
    return tuple(_UNMARKED.format(name) for name in unmarked) or (_NO_MASK,)


_UNMARKED = (
    "The tokenizer pads, but the input {0!r} that takes its attention mask is not marked: padding "
    "counts like text in every statistic. Set model.inputs.{0}.mask = true."
)

_NO_MASK = (
    "The tokenizer pads, but the model has no mask input: padding counts like text in every "
    'statistic. Give the model an attention_mask, or set set.preprocess.pad = "none".'
)


def text_of(record: Mapping[str, Any], column: str, sample: str) -> str:
    """The text in a record's column.

    Raises:
        QuantflowError: QF303 when the column is missing or holds something else.
    """
    text = record.get(column)
    if column not in record:
        what = f"{sample} has no column {column!r}"
        fail("QF303", what, where="set.preprocess.column", fix=did_you_mean(column, record))
    if not isinstance(text, str):
        what = f"{sample}: column {column!r} holds {type(text).__name__}, not text"
        fail("QF303", what, where="set.preprocess.column")
    return text


def _fields(inputs: Sequence[TensorInfo], names: Mapping[str, str]) -> dict[str, str]:
    """What fills each input: the mask input gets the mask whatever its name is."""
    known = [tensor.name for tensor in inputs]
    problems: list[Problem] = []
    for name in names:
        if name not in known:
            what, where = f"the model has no input {name!r}", f"set.preprocess.names.{name}"
            problems.append(Problem("QF305", what, where, did_you_mean(name, known)))
    fields = {x.name: names.get(x.name, MASK if x.mask else x.name) for x in inputs}
    for name, field in fields.items():
        if field not in (IDS, MASK, TYPES):
            what = f"the tokenizer cannot fill the model's input {name!r}"
            fix = _RENAME.format(name) + did_you_mean(name, (IDS, MASK, TYPES))
            problems.append(Problem("QF305", what, "set.preprocess.tokenizer", fix))
    if problems:
        raise QuantflowError(problems)
    return fields


_RENAME = (
    'say which field it takes, such as set.preprocess.names = {{ "{}" = "input_ids" }} (with a '
    "factory, rename its key in [model.inputs]), or use set.preprocess.function; "
)


def _truncation_options(tokenizer: Tokenizer) -> dict[str, Any]:
    """Side and strategy as the file has them; only the length is ours."""
    given: dict[str, Any] = tokenizer.truncation or {}
    return {key: given[key] for key in ("direction", "strategy") if key in given}


def _padding_options(tokenizer: Tokenizer, path: Path) -> dict[str, Any]:
    """Side and token as the file has them, else a token that is known for padding."""
    given: dict[str, Any] = tokenizer.padding or {}
    if given:
        return {k: given[k] for k in ("direction", "pad_id", "pad_type_id", "pad_token")}
    known = [token for token in _PAD_TOKENS if tokenizer.token_to_id(token) is not None]
    if not known:
        what = "the tokenizer has no padding token"
        fail("QF305", what, where=str(path), fix='set set.preprocess.pad = "none", or add one')
    return {"pad_id": tokenizer.token_to_id(known[0]), "pad_token": known[0]}
