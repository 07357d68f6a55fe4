"""One-in scores: what a fresh graph of each group gives, ranked worst first whatever the metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import Group, Layer, ModelRecord
from quantflow.config import Role
from quantflow.numerics.output_metrics import OUTPUT_METRICS
from quantflow.sensitivity.scores import one_in, rank
from quantflow.sensitivity.segmented_model import SegmentedModel
from tests.graph.blocks import attention, gated_feed_forward, rms_norm, transformer
from tests.graph.masked_blocks import MASK_NAME, masked_encoder, samples
from tests.graph.models import build, rand

from .builders import RUNTIME, Bench, Samples, bench, brute_force, cosine, names

LENGTHS = (6, 4, 6, 3, 5, 6, 2)
COSINE = OUTPUT_METRICS["cosine"]
OF_OUTPUTS = sorted(name for name, metric in OUTPUT_METRICS.items() if metric.against == "output")
FLOAT = {name: metric.perfect or 0.0 for name, metric in OUTPUT_METRICS.items()}
"""What the float model has; a metric against tokens may have anything."""


def coarse(proto: onnx.ModelProto, feeds: Samples, mask: str | None = None) -> Bench:
    """A bench whose ranges are six times too wide, so that INT8 does visible damage."""
    dims = {"batch": 2, "length": 6}
    exact = bench(proto, feeds, dims, mask=mask)
    wide = {x.tensor: (6 * x.low, 6 * x.high) for x in exact.ranges.ranges}
    return bench(proto, feeds, dims, bounds=wide, mask=mask)


def decoder() -> onnx.ModelProto:
    """Three pre-norm blocks with gated feed-forward networks: the stream crosses every block."""
    body, weights, x = "", list[str](), "x"
    for i in range(3):
        body += rms_norm(x, f"N{i}") + attention(f"N{i}", f"A{i}").replace(
            f"A{i} = Add(N{i}", f"A{i} = Add({x}"
        )
        body += rms_norm(f"A{i}", f"M{i}") + gated_feed_forward(f"M{i}", f"F{i}").replace(
            f"F{i} = Add(M{i}", f"F{i} = Add(A{i}"
        )
        weights += [f"A{i}w{k}" for k in "qkvo"] + [f"F{i}w{k}" for k in (1, 2, 3)]
        x = f"F{i}"
    body += rms_norm(x, "L") + "y = MatMul(L, wy)"
    return transformer(body, " ".join([*weights, "wy"]))


@pytest.fixture(scope="module")
def encoder_bench() -> Bench:
    return coarse(masked_encoder(4), samples(LENGTHS), mask=MASK_NAME)


@pytest.fixture(scope="module")
def decoder_bench() -> Bench:
    feeds = [{"x": rand(6, 8, seed=i)} for i in range(5)]
    return coarse(decoder(), feeds)


@pytest.fixture(params=["encoder", "decoder"])
def any_bench(request: pytest.FixtureRequest) -> Bench:
    return request.getfixturevalue(f"{request.param}_bench")


def expected_cosines(b: Bench, int8: frozenset[str], lengths: Sequence[int]) -> np.ndarray:
    """Cosine of every sample's real positions, from fresh graphs of the whole model."""
    values = np.full(len(lengths), np.nan)
    exact, other = brute_force(b, frozenset()), brute_force(b, int8)
    for batch, e, o in zip(b.probe.batches, exact, other, strict=True):
        for row, index in enumerate(batch.indices):
            real = slice(lengths[index])
            values[index] = cosine(e["y"][row, real], o["y"][row, real])
    return values


def lengths_of(b: Bench) -> Sequence[int]:
    return LENGTHS if b.record.mask else [6] * 5


def test_one_in_is_what_a_fresh_graph_of_each_group_gives(any_bench: Bench) -> None:
    assert len(any_bench.model.segments) >= 4
    scores = one_in(any_bench.model, any_bench.probe, COSINE, known={}, on_score=lambda *_: None)
    assert list(scores) == names(any_bench)
    lengths = lengths_of(any_bench)
    for group, found in scores.items():
        expected = expected_cosines(any_bench, frozenset({group}), lengths)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        # The damage, too, agrees to a thousandth of it.
        damage = float((1 - expected).mean())
        assert damage > 1e-7
        assert float((1 - found).mean()) == pytest.approx(damage, rel=1e-3, abs=1e-12)


def test_any_set_of_groups_is_what_a_fresh_graph_gives(any_bench: Bench) -> None:
    rng = np.random.default_rng(0)
    for share in (0.2, 0.5, 0.8, 1.0):
        int8 = frozenset(name for name in names(any_bench) if rng.random() < share)
        results = (any_bench.model.run(x.feeds, int8) for x in any_bench.probe.batches)
        found = any_bench.probe.measure(results, COSINE)
        expected = expected_cosines(any_bench, int8, lengths_of(any_bench))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_scores_do_not_depend_on_how_many_sessions_are_kept(encoder_bench: Bench) -> None:
    few = SegmentedModel(
        encoder_bench.static, encoder_bench.record, encoder_bench.factors,
        fp19=True, runtime=RUNTIME, sessions=-17,
    )  # fmt: skip
    for group in names(encoder_bench)[::8]:
        batch = encoder_bench.probe.batches[0]
        expected = brute_force(encoder_bench, frozenset({group}))[0]
        np.testing.assert_array_equal(few.run(batch.feeds, frozenset({group}))["y"], expected["y"])


def test_what_is_known_is_not_measured_again(encoder_bench: Bench) -> None:
    everything = names(encoder_bench)
    known = {name: np.full(len(LENGTHS), 0.5) for name in everything[:-2]}
    told = list[str]()
    scores = one_in(
        encoder_bench.model, encoder_bench.probe, COSINE,
        known=known, on_score=lambda name, _: told.append(name),
    )  # fmt: skip
    assert told == everything[-2:]
    assert all((scores[name] == 0.5).all() for name in known)
    expected = expected_cosines(encoder_bench, frozenset(told[:1]), LENGTHS)
    np.testing.assert_allclose(scores[told[0]], expected, rtol=0, atol=1e-6)


# --- ranking ---------------------------------------------------------------------------------


def record_of(roles: dict[str, Role]) -> ModelRecord:
    layers = tuple(
        Layer(
            name=name, node=name, op_type="MatMul", role=role, group=name, input=f"{name}_in",
            weight=f"{name}_w", bias=None, bias_node=None, output=name, macs=10,
        )
        for name, role in roles.items()
    )  # fmt: skip
    groups = tuple(
        Group(name=x.name, tensor=x.input, role=x.role, layers=(x.name,), macs=x.macs)
        for x in layers
    )
    return ModelRecord(opset=18, inputs=(), outputs=(), layers=layers, groups=groups, padding=())


def ranked(
    values: dict[str, tuple[Role, Sequence[float]]], metric: str = "cosine"
) -> list[tuple[str, bool]]:
    record = record_of({name: role for name, (role, _) in values.items()})
    scores = {name: np.array(v, np.float64) for name, (_, v) in values.items()}
    of_float = np.full(len(next(iter(scores.values()))), FLOAT[metric])
    found = rank(scores, record, OUTPUT_METRICS[metric], of_float, seed=0)
    return [(score.group, score.tied) for score in found]


@pytest.mark.parametrize("metric", OF_OUTPUTS)
def test_an_outlier_layer_ranks_first_by_every_metric(encoder_bench: Bench, metric: str) -> None:
    victim = names(encoder_bench)[6]
    tensor = next(g.tensor for g in encoder_bench.record.groups if g.name == victim)
    wild = bench(
        masked_encoder(4), samples(LENGTHS), {"batch": 2, "length": 6}, mask=MASK_NAME,
        bounds={tensor: (-300.0, 300.0)},  # one wild value in calibration: steps of 2.4
    )  # fmt: skip
    scores = one_in(
        wild.model, wild.probe, OUTPUT_METRICS[metric], known={}, on_score=lambda *_: None
    )
    of_float = wild.probe.of_float(OUTPUT_METRICS[metric])
    found = rank(scores, wild.record, OUTPUT_METRICS[metric], of_float, seed=0)
    assert found[0].group == victim
    assert not found[0].tied and found[0].damage > 3 * found[1].damage
    damages = [score.damage for score in found]
    untied = [d for d, score in zip(damages, found, strict=True) if not score.tied]
    assert untied == sorted(untied, reverse=True)


@pytest.mark.parametrize("metric", OF_OUTPUTS)
def test_more_noise_ranks_higher_by_every_metric(metric: str) -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(20, 30)).astype(np.float32)
    noise = rng.normal(size=exact.shape).astype(np.float32)
    measure = OUTPUT_METRICS[metric].value
    values: dict[str, tuple[Role, Sequence[float]]] = {
        f"g{i}": ("other", [measure(a, a + size * n) for a, n in zip(exact, noise, strict=True)])
        for i, size in enumerate((0.2, 0.8, 0.0, 0.4, 0.1))
    }
    assert [name for name, _ in ranked(values, metric)] == ["g1", "g3", "g0", "g4", "g2"]


def test_attention_goes_first_among_groups_that_are_tied() -> None:
    same = [0.90, 0.92, 0.94, 0.96]
    found = ranked({
        "ffn": ("ffn", [v - 0.001 for v in same]),
        "qkv": ("qkv", same),
        "head": ("classifier", [v - 0.002 for v in same]),
        "out": ("attention_output", [v + 0.001 for v in same]),
    })  # fmt: skip
    assert [name for name, _ in found] == ["qkv", "out", "head", "ffn"]
    assert [tied for _, tied in found] == [True, True, True, False]


def test_attention_does_not_go_first_where_the_measurement_decides() -> None:
    found = ranked({
        "qkv": ("qkv", [0.990, 0.991, 0.992]),
        "ffn": ("ffn", [0.90, 0.91, 0.92]),
        "out": ("attention_output", [0.9990, 0.9991, 0.9992]),
        "head": ("classifier", [0.9950, 0.9951, 0.9952]),
    })  # fmt: skip
    assert found == [("ffn", False), ("qkv", False), ("head", False), ("out", False)]


@pytest.mark.parametrize("metric", list(OUTPUT_METRICS))
def test_one_nan_ranks_a_group_first_ahead_of_attention(metric: str) -> None:
    # Most resamples of `broken` miss the NaN, and would overlap with the attention group.
    good = FLOAT[metric]
    worse = good - 0.1 if OUTPUT_METRICS[metric].higher_is_better else good + 0.1
    found = ranked(
        {
            "mild": ("ffn", [worse, good, worse, good]),
            "qkv": ("qkv", [good, worse, worse, worse]),
            "broken": ("ffn", [good, worse, float("nan"), worse]),
        },
        metric,
    )
    assert found[0] == ("broken", False)
    assert found[1][0] == "qkv"


def test_an_output_that_is_not_finite_is_worst_by_every_metric() -> None:
    exact = np.array([1.0, 2.0, 3.0], np.float32)
    for metric in (OUTPUT_METRICS[name] for name in OF_OUTPUTS):
        for bad in (np.nan, np.inf, -np.inf):
            other = np.array([1.0, bad, 3.0], np.float32)
            damage = metric.damage(metric.value(exact, other), metric.perfect)
            assert np.isnan(damage) or damage == np.inf


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(5)), st.sampled_from(sorted(OUTPUT_METRICS)))
def test_the_order_is_that_of_damage_whichever_way_the_metric_points(
    order: list[int], metric: str
) -> None:
    m = OUTPUT_METRICS[metric]
    sign = -1 if m.higher_is_better else 1
    values: dict[str, tuple[Role, Sequence[float]]] = {
        f"g{i}": ("ffn", [FLOAT[metric] + sign * 0.1 * (i + 1)] * 3) for i in order
    }
    assert [name for name, _ in ranked(values, metric)] == ["g4", "g3", "g2", "g1", "g0"]


def test_a_score_says_what_it_measured() -> None:
    record = record_of({"a": "ffn", "b": "ffn"})
    scores = {"a": np.array([0.5, 0.7]), "b": np.array([1.0, 1.0])}
    found = {x.group: x for x in rank(scores, record, COSINE, np.ones(2), seed=0)}
    assert found["a"].value == pytest.approx(0.6) and found["a"].damage == pytest.approx(0.4)
    assert 0.3 - 1e-9 <= found["a"].low <= 0.4 <= found["a"].high <= 0.5 + 1e-9
    assert found["a"].mac_fraction == 0.5
    assert (found["b"].low, found["b"].damage, found["b"].high) == (0, 0, 0)


def test_a_model_whose_reference_is_all_zero_is_measured() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y) "
        "{ a = MatMul(x, w) b = Relu(a) y = MatMul(b, z) }",
        {"w": rand(4, 4), "z": np.zeros((4, 4), np.float32)},
    )
    b = bench(model, [{"x": rand(4, seed=i)} for i in range(3)], {"batch": 2})
    for metric in (OUTPUT_METRICS[name] for name in OF_OUTPUTS):
        scores = one_in(b.model, b.probe, metric, known={}, on_score=lambda *_: None)
        assert all((v == metric.perfect).all() for v in scores.values())
