"""A run's precisions in lm-evaluation-harness, against torch's own log-softmax."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from quantflow.errors import QuantflowError
from quantflow.stages.pipeline import STAGES
from tests.sensitivity.projects import run_until

from . import tiny_llama

lm_eval = pytest.importorskip("lm_eval")

END = 0
"""Id of the end token ``w0``."""


@pytest.fixture(scope="module")
def folder(config: Path) -> Path:
    """The project's folder, with a tokenizer of the words w0, w1, ... beside the run."""
    run_until(STAGES[-1].folder, config)
    words = {f"w{i}": i for i in range(tiny_llama.WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w1"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_padding(length=40)  # a file may ask for it; scores must not
    tokenizer.save(str(config.parent / "tokenizer.json"))
    return config.parent


def request(*arguments: Any) -> SimpleNamespace:
    return SimpleNamespace(args=arguments)


def text(ids: list[int]) -> str:
    return " ".join(f"w{i}" for i in ids)


@pytest.fixture(scope="module")
def float_model() -> Any:
    return tiny_llama.build()


def chances(float_model: Any, ids: list[int]) -> Any:
    with torch.no_grad():
        return float_model(torch.tensor([ids]))[0].double().log_softmax(-1)


def language_model(folder: Path, precision: str = "fp32", **keys: Any) -> Any:
    from quantflow.evaluation.lm_eval_model import QuantflowLM

    keys = {"end_token": "w0", **keys}
    return QuantflowLM(folder / "run", folder / "tokenizer.json", precision, **keys)


def test_continuations_are_scored_as_torch_does(folder: Path, float_model: Any) -> None:
    cases = [([5, 9, 3], [7, 2]), ([40], [11]), (list(range(2, 40)), [3, 4, 5]), ([], [8, 8])]
    model = language_model(folder)
    found = model.loglikelihood([request(text(a), (" " if a else "") + text(b)) for a, b in cases])
    for (context, after), (value, greedy) in zip(cases, found, strict=True):
        row = ([*context, *after] if context else [END, *after])[-tiny_llama.LENGTH - 1 :]
        scores = chances(float_model, row[:-1])[-len(after) :]
        exact = sum(float(scores[i, token]) for i, token in enumerate(after))
        assert value == pytest.approx(exact, abs=1e-3)
        assert greedy == (scores.argmax(-1).tolist() == after)


def test_a_text_longer_than_the_bucket_is_scored_token_by_token_once(
    folder: Path, float_model: Any
) -> None:
    ids = [(7 * i + 3) % 60 + 1 for i in range(30)]
    (found,) = language_model(folder).loglikelihood_rolling([request(text(ids))])
    length, row = tiny_llama.LENGTH, [END, *ids]
    first = chances(float_model, row[:length])
    exact = sum(float(first[i, row[i + 1]]) for i in range(length))
    last = chances(float_model, row[30 - length : 30])
    exact += sum(float(last[i - 30 + length, row[i + 1]]) for i in range(length, 30))
    assert found == pytest.approx(exact, abs=2e-3)


def test_generation_takes_the_likeliest_token_and_stops(folder: Path, float_model: Any) -> None:
    row = [5, 9]
    for _ in range(6):
        row.append(int(chances(float_model, row)[-1].argmax()))
    expected = row[2:]
    asked: dict[str, Any] = {"until": [], "max_gen_toks": 6}
    model = language_model(folder)
    (found,) = model.generate_until([request(text([5, 9]), asked)])
    assert found == text([token for token in expected if token != END])
    asked["until"] = [f" w{expected[1]}"]
    (found,) = model.generate_until([request(text([5, 9]), asked)])
    assert found == text(expected[:1])
    with pytest.raises(QuantflowError, match="at random"):
        model.generate_until([request("w5", {"do_sample": True, "temperature": 0.7})])


def test_every_precision_scores_and_they_differ(folder: Path) -> None:
    ask = [request("w5 w9", " w3 w4")]
    values = {
        name: language_model(folder, name).loglikelihood(ask)[0][0]
        for name in ("fp32", "fp16", "int8")
    }
    assert len(set(values.values())) == 3
    assert all(value == pytest.approx(values["fp32"], abs=1.5) for value in values.values())


def test_what_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(QuantflowError, match="no token '<s>'"):
        language_model(folder, end_token="<s>")
    with pytest.raises(QuantflowError, match="no precision 'int4'"):
        language_model(folder, "int4")
    with pytest.raises(QuantflowError, match="QF310"):
        language_model(folder, tokens="ids")


def test_the_harness_runs_a_task_of_its_own(folder: Path, float_model: Any) -> None:
    """Two answers a question; the harness finds the likelier one right or wrong by itself."""
    import datasets
    from lm_eval.api.task import ConfigurableTask

    rows = [{"context": text([i, i + 3]), "choices": ["w7 w2", "w11"], "gold": i % 2}
            for i in range(3, 9)]  # fmt: skip
    task = ConfigurableTask(
        config={
            "task": "tiny",
            "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(rows)},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{context}}",
            "doc_to_choice": "choices",
            "doc_to_target": "gold",
            "metric_list": [{"metric": "acc"}],
        }
    )
    found = lm_eval.simple_evaluate(
        language_model(folder), tasks=[task], bootstrap_iters=0, log_samples=False
    )
    hits = list[bool]()
    for row in rows:
        ids = [int(word[1:]) for word in row["context"].split()]
        first, second = chances(float_model, [*ids, 7]), chances(float_model, ids)
        scores = [float(first[-2, 7] + first[-1, 2]), float(second[-1, 11])]
        hits.append((scores[1] > scores[0]) == bool(row["gold"]))
    assert found["results"]["tiny"]["acc,none"] == pytest.approx(sum(hits) / len(hits))
