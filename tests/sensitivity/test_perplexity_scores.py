"""Groups ranked by the perplexity of the text itself, against a fresh graph of each."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quantflow.numerics.output_metrics import OUTPUT_METRICS
from quantflow.sensitivity.probe import make_probe
from quantflow.sensitivity.scores import one_in, rank
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import build, rand

from .builders import Bench, bench, brute_force, names

METRIC = OUTPUT_METRICS["perplexity"]
WORDS, LENGTH = 13, 9
DIMS = {"batch": 2, "length": LENGTH}


def model(more: str = "") -> Bench:
    """Two layers over embedded tokens, then the head; the first layer reads a wild channel."""
    rng = np.random.default_rng(0)
    table = rand(WORDS, 8, scale=1)
    table[:, 0] *= 30
    proto = build(
        f"(int64[batch,length] ids, int64[batch,length] {MASK_NAME}) => "
        f"(float[batch,length,{WORDS}] logits) {{ "
        "e = Gather(table, ids) a = MatMul(e, w0) r = Relu(a) b = MatMul(r, w1) s = Add(b, e) "
        f"l = MatMul(s, w2) m = Cast<to=1>({MASK_NAME}) n = Unsqueeze(m, last) "
        "logits = Mul(l, n) }",
        {
            "table": table, "w0": rand(8, 8, seed=1), "w1": rand(8, 8, seed=2),
            "w2": rand(8, WORDS, seed=3), "last": np.int64([-1]),
        },
    )  # fmt: skip
    samples = [
        {
            "ids": rng.integers(0, WORDS, LENGTH),
            MASK_NAME: (np.arange(LENGTH) < length).astype(np.int64),
        }
        for length in (9, 9, 5, 9, 2)
    ]
    found = bench(proto, samples, DIMS, mask=MASK_NAME)
    probe = make_probe(found.model, samples, found.record, DIMS, tokens="ids")
    return Bench(found.described, found.ranges, found.factors, found.model, probe)


@pytest.fixture(scope="module")
def language() -> Bench:
    return model()


def torch_loss(language: Bench, results: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Mean cross entropy of every sample's next token, over what is no padding."""
    losses = dict[int, float]()
    for batch, result in zip(language.probe.batches, results, strict=True):
        for row, index in enumerate(batch.indices):
            length = int(batch.feeds[MASK_NAME][row].sum())
            logits = torch.from_numpy(result["logits"][row][: length - 1]).double()
            targets = torch.from_numpy(batch.feeds["ids"][row][1:length])
            losses[index] = float(torch.nn.functional.cross_entropy(logits, targets))
    return np.array([losses[index] for index in sorted(losses)])


def test_every_score_is_the_loss_of_a_fresh_graph_in_which_the_group_alone_is_int8(
    language: Bench,
) -> None:
    scores = one_in(language.model, language.probe, METRIC, known={}, on_score=lambda *_: None)
    assert set(scores) == set(names(language)) and len(scores) == 3
    for group, found in scores.items():
        expected = torch_loss(language, brute_force(language, frozenset({group})))
        assert found == pytest.approx(expected, rel=1e-5)


def test_damage_is_the_rise_over_the_float_model_on_the_same_text(language: Bench) -> None:
    of_float = torch_loss(language, brute_force(language, frozenset()))
    assert language.probe.of_float(METRIC) == pytest.approx(of_float, rel=1e-5)
    scores = one_in(language.model, language.probe, METRIC, known={}, on_score=lambda *_: None)
    ranked = rank(scores, language.record, METRIC, language.probe.of_float(METRIC), seed=0)
    for score in ranked:
        assert score.value == pytest.approx(np.exp(scores[score.group].mean()))
        rise = float((scores[score.group] - of_float).mean())
        assert score.damage == pytest.approx(rise, abs=1e-6)
        assert score.low <= score.damage <= score.high
