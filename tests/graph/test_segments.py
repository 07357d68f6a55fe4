"""Segments: together they are the model, cut where little crosses and never inside a group."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.graph.segments import CARRIED_GROUPS, find_segments, segment_model

from .blocks import attention, feed_forward, layer_norm, transformer
from .masked_blocks import MASK_NAME, Described, describe, masked_encoder, with_constants
from .models import Arrays, build, rand, run

BUCKET = {"batch": 2, "length": 6}


def chain(described: Described, feeds: Arrays) -> dict[str, np.ndarray]:
    """Run the segments one after the other, each on nothing but what it declares to read."""
    alive = dict(feeds)
    for segment in find_segments(described.static, described.record):
        part = segment_model(described.static, segment)
        assert [value.name for value in part.graph.inputs] == list(segment.inputs)
        made = run(part, {name: alive[name] for name in segment.inputs})
        assert list(made) == list(segment.outputs)
        alive |= made
    return {str(value.name): alive[str(value.name)] for value in described.static.graph.outputs}


def check_chain(described: Described, feeds: Arrays) -> None:
    """The chain gives the whole model's outputs, bit for bit."""
    whole = run(described.static, feeds)
    parts = chain(described, feeds)
    assert list(parts) == list(whole)
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array)


def positions(described: Described) -> dict[str, int]:
    return {str(node.name): index for index, node in enumerate(described.static.graph)}


@pytest.fixture(scope="module")
def encoder() -> Described:
    return describe(masked_encoder(4), BUCKET)


def encoder_feeds() -> Arrays:
    mask = np.int64([[1] * 6, [1, 1, 1, 0, 0, 0]])
    return {"x": rand(2, 6, 8), MASK_NAME: mask}


def test_the_chain_of_an_encoder_s_segments_is_the_encoder(encoder: Described) -> None:
    check_chain(encoder, encoder_feeds())


def test_an_encoder_is_cut_where_only_the_stream_and_the_mask_cross(encoder: Described) -> None:
    segments = find_segments(encoder.static, encoder.record)
    # Two halves of four blocks, and the head.
    streams = [set(segment.inputs) - {"bias"} for segment in segments[1:]]
    assert streams == [{f"{end}{i}"} for i in range(4) for end in "NM"]


def test_the_mask_is_carried_to_the_last_block_that_reads_it(encoder: Described) -> None:
    segments = find_segments(encoder.static, encoder.record)
    readers = [i for i, x in enumerate(segments) if any("A" in name for name in x.groups)]
    assert readers[0] == 0 and len(readers) == 4
    carried = [index for index, segment in enumerate(segments) if "bias" in segment.inputs]
    assert carried == list(range(1, readers[-1] + 1))


def test_every_group_lies_in_one_segment_in_graph_order(encoder: Described) -> None:
    segments = find_segments(encoder.static, encoder.record)
    named = [name for segment in segments for name in segment.groups]
    assert sorted(named) == sorted(group.name for group in encoder.record.groups)
    place = positions(encoder)
    starts = {
        group.name: min(place[x.node] for x in encoder.record.layers if x.group == group.name)
        for group in encoder.record.groups
    }
    assert named == sorted(named, key=lambda name: starts[name])


def test_a_segment_holds_its_own_weights_and_no_others(encoder: Described) -> None:
    layers = {layer.name: layer for layer in encoder.record.layers}
    weights = {layer.weight for layer in layers.values()}
    members = {group.name: group.layers for group in encoder.record.groups}
    for segment in find_segments(encoder.static, encoder.record):
        inside = {layers[name].weight for group in segment.groups for name in members[group]}
        part = segment_model(encoder.static, segment)
        assert weights & set(part.graph.initializers) == inside


def test_a_group_that_spans_blocks_is_not_cut() -> None:
    # K and V of both decoder blocks read the encoder's output: one group of four layers.
    body = layer_norm("m", "E")
    for i, x in enumerate(("x", "N0")):
        body += attention(x, f"A{i}", memory="E") + layer_norm(f"A{i}", f"M{i}")
        body += feed_forward(f"M{i}", f"F{i}") + layer_norm(f"F{i}", f"N{i}")
    weights = [f"A{i}w{k}" for i in range(2) for k in "qkvo"] + [
        f"F{i}w{k}" for i in range(2) for k in (1, 2)
    ]
    proto = transformer(
        body + "y = MatMul(N1, wy)",
        " ".join([*weights, "wy"]),
        inputs=", float[batch,other,8] m",
    )
    described = describe(proto, {"batch": 1, "length": 4, "other": 3}, mask=None)
    spanning = next(g for g in described.record.groups if g.tensor == "E")
    assert len(spanning.layers) == 4
    place = positions(described)
    layers = {layer.name: layer for layer in described.record.layers}
    segments = find_segments(described.static, described.record)
    home = next(s for s in segments if spanning.name in s.groups)
    inside = {str(node.name) for node in segment_model(described.static, home).graph}
    for name in spanning.layers:
        nodes = {layers[name].node, layers[name].bias_node} - {None}
        assert nodes <= inside
    assert len(place) == sum(len(list(segment_model(described.static, s).graph)) for s in segments)
    check_chain(described, {"x": rand(1, 4, 8), "m": rand(1, 3, 8, seed=1)})


def test_one_group_is_one_segment() -> None:
    described = describe(
        build("(float[batch,4] x) => (float[batch,3] y) { y = MatMul(x, w) }", {"w": rand(4, 3)}),
        {"batch": 2},
        mask=None,
    )
    segments = find_segments(described.static, described.record)
    assert len(segments) == 1
    check_chain(described, {"x": rand(2, 4)})


def test_an_output_in_the_middle_of_the_model_is_given_by_its_segment() -> None:
    described = describe(
        build(
            "(float[batch,4] x) => (float[batch,4] y, float[batch,4] b) "
            "{ a = MatMul(x, w) b = Relu(a) c = MatMul(b, w2) d = Tanh(c) y = MatMul(d, w3) }",
            {"w": rand(4, 4), "w2": rand(4, 4, seed=1), "w3": rand(4, 4, seed=2)},
        ),
        {"batch": 2},
        mask=None,
    )
    assert len(find_segments(described.static, described.record)) > 1
    check_chain(described, {"x": rand(2, 4)})


def test_outputs_that_are_inputs_and_constants_survive() -> None:
    described = describe(
        build(
            "(float[batch,4] x) => (float[batch,4] x2, float[batch,4] y, float[3] k) "
            "{ x2 = Identity(x) k = Identity(ones) "
            "a = MatMul(x, w) b = Relu(a) c = MatMul(b, w2) d = Tanh(c) y = MatMul(d, w3) }",
            {"w": rand(4, 4), "w2": rand(4, 4), "w3": rand(4, 4), "ones": np.ones(3, np.float32)},
        ),
        {"batch": 2},
        mask=None,
    )
    assert len(find_segments(described.static, described.record)) > 1
    check_chain(described, {"x": rand(2, 4)})


def with_branch() -> onnx.ModelProto:
    """Layers before and after an If whose bodies read values made far before it."""
    model = build(
        "(float[batch,4] x, bool[flags] flag) => (float[batch,4] y) { "
        "a = MatMul(x, w) s = Sigmoid(a) b = MatMul(s, w2) t = Tanh(b) c = MatMul(t, w3) "
        "r = Relu(c) f = Squeeze(flag) i = If(f) <then_branch = g1 () => (float[batch,4] u) "
        "{ u = Add(r, s) }, else_branch = g2 () => (float[batch,4] v) { v = Sub(r, s) }> "
        "y = MatMul(i, w4) }",
        {"w": rand(4, 4), "w2": rand(4, 4), "w3": rand(4, 4), "w4": rand(4, 4)},
    )
    for node in model.graph.node:
        for attribute in node.attribute:
            for inner in attribute.g.node:
                inner.name = f"n_{inner.output[0]}"
    return model


@pytest.mark.parametrize("flag", [True, False])
def test_a_value_that_only_the_body_of_an_if_reads_reaches_it(flag: bool) -> None:
    described = describe(with_branch(), {"batch": 2, "flags": 1}, mask=None)
    assert "If" in {node.op_type for node in described.static.graph}
    assert len(find_segments(described.static, described.record)) > 1
    check_chain(described, {"x": rand(2, 4), "flag": np.array([flag])})


def test_values_that_many_groups_outlive_do_not_speak_against_a_cut() -> None:
    blocks = CARRIED_GROUPS + 2
    body, x = "k = Sigmoid(x) ", "x"
    for i in range(blocks):  # every block adds the same tensor
        body += f"a{i} = MatMul({x}, w{i}) t{i} = Tanh(a{i}) r{i} = Add(t{i}, k) "
        x = f"r{i}"
    weights = {f"w{i}": rand(4, 4, seed=i) for i in range(blocks)}
    proto = build(
        f"(float[batch,4] x) => (float[batch,4] y) {{ {body} y = Mul({x}, one) }}", weights
    )
    described = describe(
        with_constants(proto, {"one": np.float32(2) * np.ones(4, np.float32)}),
        {"batch": 2},
        mask=None,
    )
    segments = find_segments(described.static, described.record)
    assert [len(segment.groups) for segment in segments] == [1] * blocks
    check_chain(described, {"x": rand(2, 4)})


@st.composite
def graphs(draw: st.DrawFn) -> tuple[onnx.ModelProto, int]:
    """Random graphs of layers, sums and nonlinearities, with up to three outputs."""
    count = draw(st.integers(2, 12))
    values, lines, weights = ["x", "z"], list[str](), dict[str, np.ndarray]()
    for i in range(count):
        kind = draw(st.sampled_from(["layer", "biased", "Add", "Tanh", "Relu"]))
        first = draw(st.sampled_from(values))
        if kind in ("layer", "biased"):
            weights[f"w{i}"] = rand(4, 4, seed=i)
            lines.append(f"v{i} = MatMul({first}, w{i})")
            if kind == "biased":
                weights[f"c{i}"] = rand(4, seed=i)
                lines.append(f"u{i} = Add(v{i}, c{i})")
        elif kind == "Add":
            lines.append(f"v{i} = Add({first}, {draw(st.sampled_from(values))})")
        else:
            lines.append(f"v{i} = {kind}({first})")
        values.append(f"u{i}" if kind == "biased" else f"v{i}")
    # At least two layers in a row, and something that reads both inputs.
    weights |= {"wa": rand(4, 4, seed=70), "wb": rand(4, 4, seed=71)}
    lines += [f"la = MatMul({values[-1]}, wa)", "lb = MatMul(la, wb)", "lc = Add(lb, z)"]
    lines.append("ld = Add(lc, x)")
    outputs = [*draw(st.lists(st.sampled_from(values[2:]), max_size=2, unique=True)), "ld"]
    heads = ", ".join(f"float[batch,4] {name}" for name in outputs)
    text = f"(float[batch,4] x, float[batch,4] z) => ({heads}) {{ {' '.join(lines)} }}"
    return build(text, weights), len(outputs)


@settings(max_examples=50, derandomize=True)
@given(graphs())
def test_the_chain_of_any_graph_s_segments_is_the_graph(case: tuple[onnx.ModelProto, int]) -> None:
    described = describe(case[0], {"batch": 2}, mask=None)
    check_chain(described, {"x": rand(2, 4), "z": rand(2, 4, seed=1)})
    segments = find_segments(described.static, described.record)
    named = [name for segment in segments for name in segment.groups]
    assert sorted(named) == sorted(group.name for group in described.record.groups)
    # What a later segment reads exists by then, and nothing is made twice.
    made = [name for segment in segments for name in segment.outputs]
    assert len(set(made)) == len(made)
    for before, segment in pairwise(segments):
        assert set(segment.inputs) <= {*before.inputs, *before.outputs}
