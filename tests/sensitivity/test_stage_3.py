"""Stage 3 and what follows it: the plan is found, edited by hand, and obeyed in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import CurvePoint, PolicyResult, SideResult
from quantflow.errors import QuantflowError
from quantflow.export.deployed import deployed_layers
from quantflow.graph.model_io import load_model
from tests.graph.models import build, rand

from .projects import (
    encoder_project,
    read_model,
    read_sweep,
    redundant_project,
    run_one,
    run_until,
    write_project,
)

PIN_BOTH = (
    'plan.pins=[{pattern="n_a", precision="int8"}, {pattern="n_b", precision="int8"}]'
)  # fmt: skip
ATTENTION = {"n_A0q+n_A0k+n_A0v0", "n_A0o", "n_A1q+n_A1k+n_A1v0", "n_A1o"}


def cosine_of(measured: CurvePoint | PolicyResult | SideResult) -> float:
    """Mean cosine over the samples."""
    return next(measure.value for measure in measured.measures if measure.metric == "cosine")


def run_folder(config: Path) -> Path:
    return config.parent / "run"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder's project up to stage 2."""
    config = encoder_project(tmp_path_factory.mktemp("encoder"))
    run_until("20_ranges", config)
    return config


# --- faults planted in a model --------------------------------------------------------------------


def test_two_layers_that_only_hurt_together_are_caught(tmp_path: Path) -> None:
    config = redundant_project(tmp_path)
    run_until("30_sweep", config, "plan.boundary_macs=0.0")
    plan, record = read_sweep(config)
    scores = {score.group: score for score in record.scores}
    for name in ("n_a", "n_b"):
        # Alone, neither does anything; together they leave nothing of the output.
        assert abs(scores[name].one_in.damage) < 1e-9
        assert scores[name].one_out.damage > 0.9
    assert record.curve[0].fp16_groups == () and cosine_of(record.curve[0]) < 0.1
    assert cosine_of(next(x for x in record.policies if x.policy == "none")) < 0.1
    assert len({"n_a", "n_b"} & set(plan.fp16_groups)) == 1
    assert record.verified and record.reasons == ()
    # What the search added before it came to them has gone back to INT8.
    assert len(plan.fp16_groups) == 1


def test_a_budget_that_pins_put_out_of_reach_is_said_to_be(tmp_path: Path) -> None:
    config = redundant_project(tmp_path)
    run_until("30_sweep", config, PIN_BOTH)
    plan, record = read_sweep(config)
    assert not record.verified and not {"n_a", "n_b"} & set(plan.fp16_groups)
    first, *others = record.reasons
    assert "no plan meets the budget" in first and "cosine_mean is 0.99" in first
    assert any("activations alone" in reason for reason in others)
    assert not any("fp16 itself" in reason or "weights alone" in reason for reason in others)
    assert all(cosine_of(point) < 0.1 for point in record.curve)


def test_the_sweep_says_how_far_it_is_and_why_it_decided(tmp_path: Path) -> None:
    # C35: what was done, and how much of it is left, from which the time left follows.
    config = redundant_project(tmp_path)
    run_until("20_ranges", config)
    seen = dict[str, list[tuple[int, int]]]()
    run_one(
        "30_sweep",
        config,
        progress=lambda what, done, total: seen.setdefault(what, []).append((done, total)),
    )
    groups = [steps for what, steps in seen.items() if "each alone in INT8" in what]
    assert groups and all(done <= total for steps in groups for done, total in steps)
    assert all(steps[-1][0] == steps[-1][1] > 0 for steps in seen.values())
    assert {"sides of quantization", "plans tried", "verifying the plan"} <= set(seen)
    plan, sweep = read_sweep(config)
    assert plan.fp16_groups and all(plan.groups[name].reason for name in plan.fp16_groups)
    assert sweep.curve and sweep.policies and sweep.sides


def test_an_outlier_layer_is_the_one_that_goes_to_fp16(tmp_path: Path) -> None:
    # `n_b` reads a tensor with one channel a thousand times as large as the rest.
    model = build(
        "(float[batch,16] x) => (float[batch,8] y) { a = MatMul(x, w0) r = Tanh(a) s = Mul(r, gain)"
        " b = MatMul(s, w1) t = Relu(b) c = MatMul(t, w2) u = Tanh(c) y = MatMul(u, w3) }",
        {
            "w0": rand(16, 8, scale=0.3), "w2": rand(8, 8, seed=2), "w3": rand(8, 8, seed=3),
            "gain": np.float32([1, 1, 1, 1, 1, 1, 1, 1000]),
            "w1": rand(8, 8, seed=1) * np.float32([[1]] * 7 + [[1e-4]]),
        },
    )  # fmt: skip
    config = write_project(tmp_path, model, {"x": rand(40, 16)}, {"batch": 2})
    off = [f"optimize.{x}=false" for x in ("smoothing", "rounding", "bias_correction")]
    run_until("30_sweep", config, *off)
    plan, record = read_sweep(config)
    first = record.scores[0]
    assert first.group == "n_b" and not first.tied and first.rank_high == 1
    assert first.activations is not None and first.weights is not None
    assert first.activations > 10 * first.weights
    assert plan.fp16_groups == ["n_b"] and record.verified
    assert "rank 1" in plan.groups["n_b"].reason
    # The gain can take a scale, which brings the channel down to the others.
    run_until("30_sweep", config)
    assert not read_sweep(config)[0].fp16_groups


FIGURE = """
import numpy as np

def margin(sample, inputs, outputs):
    # By how much the first class leads at the real positions; the output has no padding left.
    assert outputs["y"].shape == inputs["x"].shape and sample
    return float((outputs["y"][:, 0] - outputs["y"][:, 1:].mean(axis=1)).mean())
"""


def test_a_users_figure_ranks_groups_and_bounds_the_plan(tmp_path: Path) -> None:
    config = encoder_project(tmp_path, blocks=1)
    (tmp_path / "figure.py").write_text(FIGURE)
    task = 'task={kind="function", function="figure:margin", higher_is_better=true}'
    task_of = (task, 'plan.metric="function"', "plan.halving=false")
    loose = (*task_of, "budget.task_drop=0.5")
    run_until("30_sweep", config, *loose)
    plan, record = read_sweep(config)
    assert record.metric == "function" and record.verified and plan.fp16_groups == []
    result = next(x for x in record.policies if x.policy == "auto")
    assert [(x.metric, x.limit) for x in result.measures] == [("function", 0.5), ("cosine", None)]
    # The float model's own figure is what damages are counted from, for all groups alike.
    of_float = {score.one_in.value + score.one_in.damage for score in record.scores}
    assert max(of_float) == pytest.approx(min(of_float), abs=1e-9)
    tight = (*task_of, "budget.task_drop=0.0001")
    run_until("30_sweep", config, *tight)
    plan, record = read_sweep(config)
    assert plan.fp16_groups or not record.verified
    assert all(point.measures[0].metric == "function" for point in record.curve)
    # The function's text is part of what the stage is made from.
    assert not run_until("30_sweep", config, *tight)[-1].ran
    (tmp_path / "figure.py").write_text(FIGURE.replace("outputs", "out").replace("# By", "# by"))
    assert run_until("30_sweep", config, *tight)[-1].ran


# --- policies and pins --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "fp16"), [("none", set[str]()), ("attention", ATTENTION), ("auto", None)]
)
def test_the_configuration_chooses_the_policy(
    base: Path, policy: str, fp16: set[str] | None
) -> None:
    run_one("30_sweep", base, f"plan.policy={policy}")
    plan, record = read_sweep(base)
    assert plan.policy == record.policy == policy
    assert set(plan.groups) == {group.name for group in read_model(base).groups}
    if fp16 is not None:
        assert set(plan.fp16_groups) == fp16
        assert record.scores == () and record.curve == () and record.search_samples == 0
        assert record.sides == () and record.rank_stability is None
    else:
        assert len(record.scores) == len(plan.groups) and record.search_samples == 12
        assert [x.side for x in record.sides] == ["fp16", "weights", "activations", "int8"]
        assert record.rank_stability is not None and record.rank_stability > 0.5
    named = {x.policy: x for x in record.policies}
    assert named["none"].int8_mac_fraction == 1 and named["none"].fp16_groups == 0
    assert named["attention"].fp16_groups == 4
    result = named[policy]
    assert record.verified == result.meets_budget == (cosine_of(result) >= 0.99)
    assert record.metric == "cosine" and record.most_fp16_groups is None
    assert record.plan_digest == file_digest(run_folder(base) / "30_sweep" / "plan.json")


def test_boundaries_and_int8_share_are_those_of_the_deploy_model(base: Path) -> None:
    for policy in ("attention", "none"):
        run_one("30_sweep", base, f"plan.policy={policy}")
        run_one("40_onnx", base, f"plan.policy={policy}")
        _, record = read_sweep(base)
        result = next(x for x in record.policies if x.policy == policy)
        export = ExportRecord.read(run_folder(base) / "40_onnx" / "export.json")
        counts = export.buckets[0].op_types
        assert result.boundaries == counts["AscendQuant"] + counts["AscendDequant"]
        assert result.int8_mac_fraction == export.int8_mac_fraction
        layers = read_model(base).layers
        int8 = {x.layer for x in export.layers if x.precision == "int8"}
        share = sum(x.macs for x in layers if x.name in int8) / sum(x.macs for x in layers)
        assert result.int8_mac_fraction == pytest.approx(share)


def test_pins_hold_in_every_policy(base: Path) -> None:
    # The last pin that matches a group counts.
    pins = (
        'plan.pins=[{role="ffn"}, {pattern="n_F0*", precision="int8"}, {pattern="n_A1k"},'
        ' {role="classifier", precision="int8"}]'
    )
    pinned = {"n_F1a", "n_F1d", "n_A1q+n_A1k+n_A1v0"}
    for policy, more in (("none", set[str]()), ("attention", ATTENTION), ("auto", None)):
        run_one("30_sweep", base, f"plan.policy={policy}", pins)
        plan, _ = read_sweep(base)
        found = set(plan.fp16_groups)
        assert pinned <= found and not {"n_F0a", "n_F0d", "n_y"} & found
        if more is not None:
            assert found == pinned | more


def test_a_pin_that_matches_nothing_stops_the_stage(base: Path) -> None:
    pins = 'plan.pins=[{pattern="n_A0g"}, {role="conv"}]'
    with pytest.raises(QuantflowError) as caught:
        run_one("30_sweep", base, pins)
    first, second = caught.value.problems
    assert first.code == second.code == "QF510"
    assert "n_A0o" in first.fix or "n_A0q" in first.fix
    assert "conv" in second.what and "qkv" in second.fix


def test_search_and_verification_use_different_samples(base: Path) -> None:
    folder = run_folder(base) / "10_set"
    search, other = SampleSet(folder / "calibration"), SampleSet(folder / "heldout")
    evaluation = SampleSet(folder / "evaluation")
    assert not set(search.digests) & set(other.digests)
    assert not set(evaluation.digests) & {*search.digests, *other.digests}


def test_few_samples_are_what_is_asked_for(base: Path) -> None:
    run_one("30_sweep", base, "plan.samples=5")
    _, record = read_sweep(base)
    assert record.search_samples == 5 and record.verification_samples == 10


# --- a plan that a person edited -----------------------------------------------------------------


def edit_plan(config: Path, **precisions: str) -> None:
    path = run_folder(config) / "30_sweep" / "plan.json"
    tree = json.loads(path.read_text())
    for name, precision in precisions.items():
        tree["groups"][name] = {"precision": precision, "reason": ""}
    path.write_text(json.dumps(tree))


def producers(value: ir.Value | None) -> Iterator[ir.Node]:
    """All nodes that a value depends on."""
    waiting, seen = [value], set[ir.Node]()
    while waiting:
        current = waiting.pop()
        node = current.producer() if current is not None else None
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(node.inputs)


INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32)


def assert_float(deploy: ir.Model, record: ModelRecord, group: str) -> None:
    """The layers of a group multiply float by a float constant, and no quantized value is near."""
    nodes = {node.name: node for node in deploy.graph}
    for layer in (x for x in record.layers if x.group == group):
        node = nodes[layer.node]
        activation, weight = node.inputs[:2]
        assert weight is not None and weight.const_value is not None
        assert weight.const_value.dtype == ir.DataType.FLOAT
        assert activation is not None and activation.name == layer.input
        assert activation.dtype not in INTEGERS
        # Nothing quantized between the layer and whatever made its input in float.
        source = activation.producer()
        assert source is None or source.op_type != "AscendQuant"
        for before in producers(activation):
            if before.op_type == "AscendQuant":
                assert all(reader.name in int8_nodes(deploy) for reader in before.successors())
        readers = {use.node.op_type for use in node.outputs[0].uses()}
        assert "AscendDequant" not in readers


def int8_nodes(deploy: ir.Model) -> set[str]:
    return {str(layer.product.name) for layer in deployed_layers(deploy)}


def load_deploy(config: Path) -> ir.Model:
    folder = run_folder(config) / "40_onnx"
    return load_model(folder / ExportRecord.read(folder / "export.json").buckets[0].deploy)


def test_a_group_switched_to_fp16_by_hand_is_float_in_the_file(base: Path) -> None:
    run_until("40_onnx", base, "plan.policy=none")
    record = read_model(base)
    assert int8_nodes(load_deploy(base)) == {x.node for x in record.layers}
    group = "n_A1q+n_A1k+n_A1v0"
    edit_plan(base, **{group: "fp16"})
    # The sweep stands, with the plan as it is now; the export does not.
    assert not run_one("30_sweep", base, "plan.policy=none").ran
    assert run_one("40_onnx", base, "plan.policy=none").ran
    deploy = load_deploy(base)
    assert int8_nodes(deploy) == {x.node for x in record.layers if x.group != group}
    assert_float(deploy, record, group)
    export = ExportRecord.read(run_folder(base) / "40_onnx" / "export.json")
    assert {x.layer for x in export.layers if x.precision == "fp16"} == {"n_A1q", "n_A1k", "n_A1v0"}
    assert not run_one("40_onnx", base, "plan.policy=none").ran


def test_every_group_that_the_sweep_leaves_in_fp16_is_float_in_the_file(tmp_path: Path) -> None:
    config = redundant_project(tmp_path)
    run_until("40_onnx", config)
    plan, _ = read_sweep(config)
    record, deploy = read_model(config), load_deploy(config)
    assert plan.fp16_groups
    for group in plan.fp16_groups:
        assert_float(deploy, record, group)
    fp16 = {x.node for x in record.layers if x.group in plan.fp16_groups}
    assert int8_nodes(deploy) == {x.node for x in record.layers} - fp16


def test_a_weight_that_two_groups_share_stays_float_for_the_one_in_fp16(tmp_path: Path) -> None:
    # One weight for two layers, and, as a tied embedding, for a Gather (C19).
    model = build(
        "(float[batch,8] x, int64[batch,1] i) => (float[batch,8] y) { a = MatMul(x, w) r = Relu(a) "
        "b = MatMul(r, w) t = Tanh(b) e = Gather(w, i) f = Squeeze(e, one) s = Add(t, f) "
        "y = MatMul(s, w2) }",
        {"w": rand(8, 8, scale=0.4), "w2": rand(8, 8, seed=1), "one": np.int64([1])},
    )
    arrays = {"x": rand(40, 8), "i": np.arange(40, dtype=np.int64)[:, None] % 8}
    config = write_project(tmp_path, model, arrays, {"batch": 2})
    overrides = ('plan.pins=[{pattern="n_b"}]', "plan.policy=none", "optimize.smoothing=false")
    run_until("40_onnx", config, *overrides)
    record, deploy = read_model(config), load_deploy(config)
    assert int8_nodes(deploy) == {"n_a", "n_y"}
    assert_float(deploy, record, "n_b")
    gather = next(node for node in deploy.graph if node.op_type == "Gather")
    for node in (gather, next(n for n in deploy.graph if n.name == "n_b")):
        weight = next(v for v in node.inputs if v is not None and v.const_value is not None)
        np.testing.assert_array_equal(weight.const_value.numpy(), rand(8, 8, scale=0.4))


def test_a_plan_with_an_unknown_group_is_refused(base: Path) -> None:
    run_one("30_sweep", base, "plan.policy=none", force=True)
    edit_plan(base, n_A0p="fp16")
    with pytest.raises(QuantflowError) as caught:
        run_one("40_onnx", base, "plan.policy=none")
    (problem,) = caught.value.problems
    assert problem.code == "QF542" and "n_A0p" in problem.what and "n_A0o" in problem.fix


def test_a_plan_that_leaves_a_group_out_is_refused(base: Path) -> None:
    run_one("30_sweep", base, "plan.policy=none", force=True)
    path = run_folder(base) / "30_sweep" / "plan.json"
    tree = json.loads(path.read_text())
    del tree["groups"]["n_y"]
    path.write_text(json.dumps(tree))
    with pytest.raises(QuantflowError, match="QF542") as caught:
        run_one("40_onnx", base, "plan.policy=none")
    assert "n_y" in caught.value.problems[0].what


@pytest.mark.parametrize("text", ["{", "[]", '{"policy": "none"}', "\xff"])
def test_a_plan_that_cannot_be_read_is_refused(base: Path, text: str) -> None:
    run_one("30_sweep", base, "plan.policy=none", force=True)
    (run_folder(base) / "30_sweep" / "plan.json").write_bytes(text.encode("latin-1"))
    assert not run_one("30_sweep", base, "plan.policy=none").ran
    with pytest.raises(QuantflowError) as caught:
        run_one("40_onnx", base, "plan.policy=none")
    assert caught.value.problems[0].code == "QF402"
    assert "plan.json" in caught.value.problems[0].where


def test_a_wrong_precision_in_a_plan_is_refused(base: Path) -> None:
    run_one("30_sweep", base, "plan.policy=none", force=True)
    edit_plan(base, n_y="int4")
    with pytest.raises(QuantflowError, match="QF402"):
        run_one("40_onnx", base, "plan.policy=none")


def test_the_copy_of_the_plan_beside_the_exported_files_is_not_for_editing(base: Path) -> None:
    run_one("30_sweep", base, "plan.policy=none", force=True)
    run_one("40_onnx", base, "plan.policy=none")
    path = run_folder(base) / "40_onnx" / "plan.json"
    path.write_text(path.read_text().replace('"int8"', '"fp16"'))
    # What follows would take its word for what the deploy file holds.
    with pytest.raises(QuantflowError, match="QF405"):
        run_one("45_compare", base, "plan.policy=none")
    assert run_one("40_onnx", base, "plan.policy=none").ran
    assert run_one("45_compare", base, "plan.policy=none").ran


def test_settings_of_the_plan_make_the_sweep_stale(base: Path) -> None:
    run_until("40_onnx", base, "plan.policy=none")
    with pytest.raises(QuantflowError, match="QF407"):
        run_one("40_onnx", base, "plan.policy=attention")
    for change in ('plan.pins=[{role="ffn"}]', "budget.cosine_mean=0.5", "run.seed=1"):
        assert run_until("30_sweep", base, "plan.policy=none", change)[-1].ran
