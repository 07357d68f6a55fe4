"""What the repair of calibration sets is measured on: a model, its set, and what it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from quantflow.user_code import load_function

SETS = Path(__file__).parents[1] / "calibration_sets"

Records = Sequence[dict[str, Any]]
Source = Callable[[], Records]


def _function(folder: str, name: str) -> Source:
    return lambda: load_function(name, SETS / folder)()


def _rows(source: Source) -> Source:
    """Rows of 512 tokens for SmolLM2, of records' texts one after the other."""

    def made() -> Records:
        encode = load_function("model:tokenizer", SETS / "smollm2_wikipedia")().encode
        ids = encode("\n\n".join(record["text"] for record in source()[:1200])).ids
        return [{"input_ids": ids[i : i + 512]} for i in range(0, len(ids) - 511, 512)]

    return made


@dataclass(frozen=True, slots=True)
class Case:
    """What a model is calibrated on, and what it is sent.

    Attributes:
        part: of the benchmark.
        name: for the table.
        config: of the model.
        calibration: what it is calibrated on.
        more: what is further at hand when the set is re-selected.
        deployment: what it is sent.
        sizes: overrides of the configuration.
    """

    part: Literal["repair", "smollm2"]
    name: str
    config: str
    calibration: Source
    more: Source
    deployment: Source
    sizes: tuple[str, ...] = ()


_PROSE, _CODE, _CHINESE = "english_prose", "python_code", "chinese_text"
_CANDIDATES = {
    _PROSE: _function(_PROSE, "data:candidate_paragraphs"),
    _CODE: _function(_CODE, "data:candidate_functions"),
    _CHINESE: _function(_CHINESE, "data:candidate_paragraphs"),
}
_SENT = {
    _PROSE: "paragraphs",
    _CODE: "functions",
    _CHINESE: "paragraphs",
}
_WORDS = {_PROSE: "prose", _CODE: "code", _CHINESE: "Chinese"}


def _minilm(calibrated: str, sent: str) -> Case:
    return Case(
        part="repair",
        name=f"MiniLM, {_WORDS[calibrated]} for {_WORDS[sent]}",
        config=_PROSE,
        calibration=_CANDIDATES[calibrated],
        more=_CANDIDATES[sent],
        deployment=_function(sent, f"data:deployment_{_SENT[sent]}"),
        sizes=("set.pool_samples=800",),
    )


def _smollm2(calibrated: str, sent: str) -> Case:
    deployment = _function(sent, f"data:deployment_{_SENT[sent]}")
    return Case(
        part="smollm2",
        name=f"SmolLM2, {_WORDS[calibrated]} for {_WORDS[sent]}",
        config="smollm2_wikipedia",
        calibration=_rows(_CANDIDATES[calibrated]),
        more=_rows(_CANDIDATES[sent]),
        deployment=_rows(deployment),
        sizes=("set.pool_samples=64",),
    )


CASES = (
    _minilm(_PROSE, _CODE),
    _minilm(_CODE, _PROSE),
    _minilm(_PROSE, _CHINESE),
    _minilm(_CHINESE, _PROSE),
    _smollm2(_PROSE, _CODE),
    _smollm2(_CODE, _PROSE),
    _smollm2(_PROSE, _CHINESE),
    _smollm2(_CHINESE, _PROSE),
)
