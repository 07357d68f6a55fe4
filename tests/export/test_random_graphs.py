"""Float, QDQ twin, lowered file and numpy agree, on random graphs over all kinds of layers."""

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord, TensorRange
from quantflow.export.amct_record import read_record, write_record
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.lowering import lower
from quantflow.export.parity import parity
from quantflow.export.qdq import qdq_model
from quantflow.graph.bucket import bucket_model
from quantflow.graph.canonical import canonicalize
from quantflow.graph.edit import with_outputs
from quantflow.graph.layers import describe_model
from quantflow.target.lint import lint
from tests.export.builders import make_plan, reload, run
from tests.export.dialect_numpy import interpret, product
from tests.export.random_graphs import random_graph

SEEDS = range(220)
LAYER_OPS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "AveragePool", "BatchNormalization")


@dataclass
class Case:
    """A random model in all its forms, and the values of the float one."""

    rng: np.random.Generator
    feeds: dict[str, np.ndarray]
    original: np.ndarray
    static: ir.Model
    record: ModelRecord
    factors: tuple[LayerFactors, ...]
    floats: dict[str, np.ndarray]
    deploy: ir.Model
    qdq: ir.Model

    @property
    def int8_layers(self) -> list[tuple[Layer, LayerFactors]]:
        pairs = zip(self.record.layers, self.factors, strict=True)
        return [(layer, entry) for layer, entry in pairs if entry.precision == "int8"]


def make_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 1])
    proto = random_graph(seed).proto()
    feeds = {"x": (rng.normal(size=random_graph(seed).input_shape) * 2 + 0.5).astype(np.float32)}
    (original,) = run(ir.from_proto(proto), feeds, optimize=False).values()
    model = ir.from_proto(proto)
    canonicalize(model, "2026")
    optional = ("AveragePool", "MatMul") if rng.random() < 0.7 else ()
    record = describe_model(model, {}, mask=None, notes=[], optional=optional)
    static = bucket_model(model, {})
    outputs = [layer.output for layer in record.layers]
    floats = run(with_outputs(static, [*record.tensors, *outputs], keep=True), feeds)
    floats |= feeds
    fp16 = [group.name for group in record.groups[1:] if rng.random() < 0.15]
    plan = make_plan(record, fp16)
    granularity = "per-channel" if rng.random() < 0.7 else "per-tensor"
    factors = layer_factors(model, record, _ranges(record, floats, rng), plan, granularity)
    return Case(
        rng=rng,
        feeds=feeds,
        original=original,
        static=static,
        record=record,
        factors=factors,
        floats=floats,
        deploy=deploy_model(static, record, factors),
        qdq=qdq_model(static, record, factors),
    )


def _ranges(record: ModelRecord, floats: dict[str, np.ndarray], rng: np.random.Generator):
    paired = {t for x in record.layers if x.second_input for t in (x.input, x.second_input)}
    return RangesRecord(
        ranges=tuple(
            TensorRange(
                tensor=name,
                low=float(floats[name].min()),
                high=float(floats[name].max()),
                estimator="minmax",
                symmetric=name in paired or bool(rng.random() < 0.3),
            )
            for name in record.tensors
        ),
        nonfinite=(),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_float_twin_lowered_and_numpy_agree(seed):
    case = make_case(seed)
    output = case.static.graph.outputs[0].name
    scale = np.abs(case.original).max() + 1e-6
    assert np.abs(case.floats[output] - case.original).max() <= 1e-4 * scale
    _check_files(case)
    _check_bounds(case)
    _check_integers(case)
    report = parity(case.static, case.deploy, case.qdq, case.record, case.factors, [case.feeds])
    assert report.verdict == "pass", report


def _check_files(case: Case) -> None:
    """Every file is valid in its own way."""
    findings = [
        finding for finding in lint(reload(case.deploy), "2026") if finding.level == "error"
    ]
    assert not findings, findings
    onnx.checker.check_model(ir.to_proto(case.qdq), full_check=True)
    text = write_record(case.record, case.factors)
    known = {layer.node for layer, _ in case.int8_layers if not layer.second_input}
    assert read_record(text).keys() == known
    for entry in case.factors:
        assert (entry.precision == "int8") == (not entry.reason), entry


def _check_bounds(case: Case) -> None:
    """A layer is as far from the float one as its rounding steps allow, given the same input.

    An activation is off by at most a step, half of it from rounding and half from the zero point; a
    weight by half a step; a bias by half a step of the accumulator.
    """
    nodes = {node.name: node for node in case.deploy.graph}
    constants = {v.name: v.const_value.numpy() for v in case.static.graph.initializers.values()}
    for layer, entry in case.int8_layers:
        node = nodes[layer.node]
        known = {layer.input: case.floats[layer.input]}
        if layer.second_input:
            known[layer.second_input] = case.floats[layer.second_input]
        got = _layer_alone(case.deploy, layer, known)
        expected = case.floats[layer.output].astype(np.float64)
        off, size = float(entry.scale_d), np.abs(case.floats[layer.input].astype(np.float64))
        scale_w = np.array(entry.scale_w, np.float64)
        if layer.second_input:
            weight = np.abs(case.floats[layer.second_input].astype(np.float64))
            weight_off = np.full_like(weight, scale_w[0])
        elif layer.weight:
            weight = np.abs(constants[layer.weight].astype(np.float64))
            weight_off = _along_channels(node, scale_w / 2, weight)
        else:
            weight = weight_off = None
        bound = product(node, np.full_like(size, off), weight)
        if weight is None:
            bound = bound / np.prod(node.attributes["kernel_shape"].value)
        else:
            bound = bound + product(node, size + off, weight_off)
            rank = 0 if node.op_type in ("MatMul", "Gemm") else expected.ndim - 2
            bound = bound + (off * scale_w).reshape(-1, *(1,) * rank)
        bound = bound * (1 + 1e-4) + 1e-5 * np.abs(expected).max()
        assert (np.abs(got - expected) <= bound).all(), layer.name


def _along_channels(node: ir.Node, scales: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """One number an output channel, in the shape of the weight."""
    if scales.size == 1:
        return np.full_like(weight, scales[0])
    if node.op_type in ("MatMul", "Gemm"):
        return np.broadcast_to(scales, weight.shape)
    tail = (1,) * (weight.ndim - 2)
    if node.op_type == "Conv":
        return np.broadcast_to(scales.reshape(-1, 1, *tail), weight.shape)
    groups = node.attributes["group"].value if "group" in node.attributes else 1
    rows = np.repeat(scales.reshape(groups, -1), len(weight) // groups, axis=0)
    return np.broadcast_to(rows.reshape(*weight.shape[:2], *tail), weight.shape)


def _layer_alone(deploy: ir.Model, layer: Layer, known: dict[str, np.ndarray]) -> np.ndarray:
    graph = ir.convenience.extract(deploy.graph, list(known), [layer.output])
    part = ir.Model(graph, ir_version=deploy.ir_version)
    return interpret(part, known)[layer.output].astype(np.float64)


def _check_integers(case: Case) -> None:
    """The lowered file has numpy's accumulators to the last step, optimized or not."""
    fp19 = bool(case.rng.random() < 0.5)
    deploy = reload(case.deploy)
    lowered = lower(deploy, fp19=fp19, emulate_fp16=False, islands=frozenset())
    onnx.checker.check_model(ir.to_proto(lowered), full_check=True)
    dequants = [node for node in deploy.graph if node.op_type == "AscendDequant"]
    accumulators = [node.inputs[0].name for node in dequants]
    in_float = [node.outputs[0].name for node in deploy.graph if _is_float_layer(node)]
    names = list(dict.fromkeys([*accumulators, *in_float]))
    got = run(with_outputs(lowered, names, keep=True), case.feeds)
    expected = interpret(deploy, case.feeds | {name: got[name] for name in in_float}, fp19=fp19)
    for name in got:
        assert np.array_equal(got[name], expected[name]), name
    assert all(got[name].dtype == np.int32 for name in accumulators)
    output = case.static.graph.outputs[0].name
    for optimize in (True, False):
        alone = run(lowered, case.feeds, optimize=optimize)[output]
        if in_float:
            # What rounds differently in a float layer may move a later one by a step.
            assert alone.shape == got[output].shape
        else:
            assert np.array_equal(alone, got[output])


def _is_float_layer(node: ir.Node) -> bool:
    producer = node.inputs[0].producer()
    quantized = producer is not None and producer.op_type == "AscendQuant"
    return node.op_type in LAYER_OPS and not quantized


def test_the_random_graphs_hold_every_kind_of_layer_and_attribute():
    protos = [random_graph(seed).proto() for seed in SEEDS]
    found = {
        (node.op_type, attribute.name)
        for proto in protos for node in proto.graph.node for attribute in node.attribute
    }  # fmt: skip
    for name in ("group", "pads", "auto_pad", "strides"):
        assert {("Conv", name), ("ConvTranspose", name)} <= found
    for name in ("transA", "transB", "alpha", "beta"):
        assert ("Gemm", name) in found
    assert ("Conv", "dilations") in found and ("ConvTranspose", "output_padding") in found
    assert ("AveragePool", "count_include_pad") in found
    ranks = {len(p.graph.input[0].type.tensor_type.shape.dim) for p in protos}
    assert ranks == {2, 3, 4, 5}
