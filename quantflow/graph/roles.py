"""What part a layer plays: from its module path and, where that says nothing, from topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from quantflow.artifacts.model_record import Role
from quantflow.graph.edit import constant

_LAYER_OPS = {"MatMul", "Gemm", "Conv", "ConvTranspose"}
_NONLINEAR = {"Relu", "Erf", "Tanh", "Sigmoid", "Gelu", "HardSwish", "Softplus", "Elu", "Mish",
              "LeakyRelu", "Clip", "HardSigmoid"}  # fmt: skip
_NORMS = {"LayerNormalization", "ReduceMean", "InstanceNormalization"}
_MIXING = _NORMS | {"Softmax", "LogSoftmax"}

_QKV = r"(q|k|v|query|key|value|qkv|[qkv]_proj|[qkv]_lin|qkv_proj|c_attn|in_proj|to_[qkv]|to_qkv|" \
       r"query_key_value|wqkv|w[qkv]|[qkv]_a_proj|[qkv]_b_proj)"  # fmt: skip
_NAMED: tuple[tuple[Role, str], ...] = (
    ("qkv", rf"\.{_QKV}$"),
    (
        "attention_output",
        r"(?<!DenseReluDense)\.(o_proj|out_proj|out_lin|wo|attention\.output\.dense|attn\.c_proj|to_out(\.0)?|attn\.proj|"
        r"attention\.dense|self_attention\.dense|\w*Attention\.o)$",
    ),
    ("classifier", r"(^|\.)(lm_head|classifier(\.\w+)?|score|cls|head|logits|fc_out|qa_outputs)$"),
    (
        "ffn",
        r"\.((intermediate|output)\.dense|(gate|up|down|gate_up)_proj|fc1|fc2|lin1|lin2|c_fc|"
        r"w[123]|wi(_[01])?|dense_h_to_4h|dense_4h_to_h|(mlp|ffn|feed_forward|DenseReluDense)\.\w+(\.\d+)?)$",
    ),
)


def role_of_layers(model: ir.Model, nodes: Sequence[ir.Node]) -> dict[str, Role]:
    """The role of every layer, by node name.

    Args:
        model: the canonical model that `nodes` belong to.
        nodes: its layers, in graph order.
    """
    roles = dict[str, Role]()
    topology = _attention_roles(model)
    for node in nodes:
        name = str(node.name)
        named = _role_from_name(name)
        if not _is_layer(node):
            roles[name] = "other"
        elif node.op_type in ("Conv", "ConvTranspose"):
            roles[name] = topology.get(name, "conv")
        elif named is not None:
            roles[name] = named
        else:
            roles[name] = topology.get(name) or _feed_forward_role(node)
    gated = {node.inputs[0] for node in nodes if roles[str(node.name)] == "ffn"}
    for node in nodes:
        # The ungated half of a gated feed-forward network reads what its gate reads.
        if roles[str(node.name)] == "other" and node.inputs[0] in gated:
            roles[str(node.name)] = "ffn"
    return roles


def _role_from_name(name: str) -> Role | None:
    path = re.sub(r"/(MatMul|Gemm)(_\d+)?$", "", name).lstrip("/").replace("/", ".")
    for role, pattern in _NAMED:
        if re.search(pattern, path):
            return role
    return None


def _attention_roles(model: ir.Model) -> dict[str, Role]:
    """Projections that meet in ``softmax(Q K^T) V``, and the one that reads its result."""
    roles = dict[str, Role]()
    for node in model.graph:
        if node.op_type != "Softmax":
            continue
        scores = _product_behind(node.inputs[0])
        weighted = _product_ahead(node.outputs[0])
        if scores is None or weighted is None:
            continue
        for operand in (*scores.inputs, *weighted.inputs):
            if operand is not None:
                for layer in _layers_behind(operand):
                    roles.setdefault(str(layer.name), "qkv")
        for layer in _layers_ahead(weighted.outputs[0]):
            roles.setdefault(str(layer.name), "attention_output")
    return roles


def _is_layer(node: ir.Node) -> bool:
    return node.op_type in _LAYER_OPS and any(constant(v) is not None for v in node.inputs[:2])


def _is_product(node: ir.Node) -> bool:
    """A MatMul or Einsum of two variables."""
    variables = all(constant(v) is None for v in node.inputs[:2])
    return node.op_type in ("MatMul", "Einsum") and variables


def _product_behind(value: ir.Value | None) -> ir.Node | None:
    """The product that attention scores come from, past scaling and masking."""
    for node in _walk_back(value):
        if _is_product(node):
            return node
    return None


def _product_ahead(value: ir.Value) -> ir.Node | None:
    for node in _walk_ahead(value):
        if _is_product(node):
            return node
    return None


def _layers_behind(value: ir.Value) -> list[ir.Node]:
    return [node for node in _walk_back(value) if _is_layer(node)]


def _layers_ahead(value: ir.Value) -> list[ir.Node]:
    return [node for node in _walk_ahead(value) if _is_layer(node)]


def _walk_back(value: ir.Value | None) -> Iterator[ir.Node]:
    """Nodes that `value` depends on, not looking past layers, products, softmaxes and angles."""
    waiting, seen = [value], set[ir.Node]()
    while waiting:
        current = waiting.pop()
        node = current.producer() if current is not None else None
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if not (_is_layer(node) or _is_product(node) or node.op_type in ("Softmax", "Cos", "Sin")):
            waiting.extend(_data_inputs(node))


def _data_inputs(node: ir.Node) -> list[ir.Value | None]:
    """The inputs that carry values; shapes and indices do not."""
    if node.op_type in ("Reshape", "Expand", "Slice", "Gather", "Tile", "Unsqueeze", "Squeeze"):
        return list(node.inputs[:1])
    if node.op_type == "Where":
        return list(node.inputs[1:])
    return list(node.inputs)


def _walk_ahead(value: ir.Value, stops: set[str] = _MIXING) -> Iterator[ir.Node]:
    """Nodes that depend on `value`, not looking past layers, products and the ops of `stops`."""
    waiting, seen = [value], set[ir.Node]()
    while waiting:
        for use in waiting.pop().uses():
            node = use.node
            if node in seen:
                continue
            seen.add(node)
            yield node
            if not (_is_layer(node) or _is_product(node) or node.op_type in stops):
                waiting.extend(node.outputs)


def _feed_forward_role(node: ir.Node) -> Role:
    """`ffn` for a layer joined to another by a nonlinearity, `classifier` for one that ends."""
    ahead = list(_walk_ahead(node.outputs[0]))
    behind = list(_walk_back(node.inputs[0]))
    if any(n.op_type in _NONLINEAR for n in ahead) and any(_is_layer(n) for n in ahead):
        return "ffn"
    # A classifier's result may still pass through a softmax.
    end = _walk_ahead(node.outputs[0], _NORMS)
    ends = not any(_is_layer(n) or _is_product(n) or n.op_type in _NORMS for n in end)
    joined = any(n.op_type in _NONLINEAR for n in behind) and any(_is_layer(n) for n in behind)
    residual = any(
        n.op_type == "Add" and not any(constant(v) is not None for v in n.inputs) for n in ahead
    )
    if ends and not residual:
        return "classifier"
    return "ffn" if joined else "other"
