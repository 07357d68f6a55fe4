"""Groups ranked by the perplexity of the text itself, against a fresh graph of each."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quantflow.tasks.metrics import perplexity_metric
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import build, rand

from .builders import Bench, assessment, bench, brute_force, names, outputs_of

WORDS, LENGTH = 13, 9
LENGTHS = (9, 9, 5, 1, 9, 7, 2)
"""Of the texts; a single token foretells nothing."""
DIMS = {"batch": 2, "length": LENGTH}


@pytest.fixture(scope="module")
def language() -> Bench:
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
        for length in LENGTHS
    ]
    metrics = {"perplexity": perplexity_metric("ids")}
    return bench(proto, samples, DIMS, mask=MASK_NAME, metrics=metrics)


def torch_loss(language: Bench, results: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Mean cross entropy of every text's next token; NaN for a text of one."""
    losses = list[float]()
    for sample, result in zip(language.samples, results, strict=True):
        length = int(sample[MASK_NAME].sum())
        logits = torch.from_numpy(result["logits"][: length - 1]).double()
        targets = torch.from_numpy(sample["ids"][1:length])
        losses.append(float(torch.nn.functional.cross_entropy(logits, targets)))
    return np.array(losses)


def test_every_score_is_the_loss_of_a_fresh_graph(language: Bench) -> None:
    of_float = torch_loss(language, outputs_of(language, language.static))
    assert language.probe.of_float["perplexity"] == pytest.approx(of_float, rel=1e-5, nan_ok=True)
    assert language.probe.weights["perplexity"].tolist() == [length - 1 for length in LENGTHS]
    assert np.isnan(of_float).tolist() == [length == 1 for length in LENGTHS]
    everything = torch_loss(language, brute_force(language, names(language)))
    found = assessment(language, metric="perplexity").run()
    assert {score.group for score in found.scores} == set(names(language))
    assert len(found.scores) == 3
    for score in found.scores:
        alone = torch_loss(language, brute_force(language, [score.group]))
        others = [name for name in names(language) if name != score.group]
        without = torch_loss(language, brute_force(language, others))
        # The mean over texts of the loss; what a person is told is its exponential.
        assert score.one_in.value == pytest.approx(np.exp(np.nanmean(alone)), rel=1e-5)
        assert score.one_in.damage == pytest.approx(np.nanmean(alone - of_float), abs=1e-6)
        assert score.one_in.low <= score.one_in.damage <= score.one_in.high
        assert score.weights is not None and np.isfinite(score.weights)
        assert score.samples == len(LENGTHS) - 1
        assert score.one_out.value == pytest.approx(np.exp(np.nanmean(without)), rel=1e-5)
        assert score.one_out.damage == pytest.approx(np.nanmean(everything - without), abs=1e-6)
    damages = [x.one_in.damage for x in found.scores if not x.tied]
    assert damages == sorted(damages, reverse=True) and max(map(abs, damages)) > 0.01


def test_no_output_of_the_float_model_is_kept(language: Bench) -> None:
    # Logits take 100 MB a text, and perplexity compares with the text alone.
    assert language.probe._reference._places == {}
    assert all(not metric.needs_reference for metric in language.probe.metrics.values())
