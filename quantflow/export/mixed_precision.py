"""Files for atc's other ways to keep the fp32 islands, which a person may name in [atc.options].

quantflow itself passes ``--keep_dtype``. ``modify_mixlist`` is for a mixed mode, where atc chooses
between fp32 and 16 bits by op type: types on its black list keep fp32, all nodes of them.
``op_precision_mode`` asks for the implementation of a node with more precise arithmetic; its
``high_precision`` does not go with an INT8 model. Form and meaning are from atc's manual (2026).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from quantflow.export.islands import deploy_islands
from quantflow.export.keep_dtype import certain_nodes, computing_types
from quantflow.graph.edit import opset

MIXLIST_FILE = "modify_mixlist.json"
PRECISION_FILE = "op_precision_mode.ini"


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """Content of the files; a file without content is not to be written.

    Attributes:
        mixlist: for ``--modify_mixlist``; empty without islands.
        precision_modes: for ``--op_precision_mode``; empty without islands, or with INT8 layers.
        notes: which nodes the files concern beside the islands, and why one is empty.
    """

    mixlist: str
    precision_modes: str
    notes: tuple[str, ...]


def mixed_precision(model: ir.Model, islands: frozenset[str]) -> MixedPrecision:
    """Files for the islands of a deploy model.

    Args:
        model: what atc is given. Op types, and all but all node names, are those of every bucket.
        islands: names of nodes of the float model; for an INT8 layer, see `deploy_islands`.
    """
    names = deploy_islands(model, islands)
    kept = [node for node in model.graph.all_nodes() if node.name in names]
    version = opset(model)
    types = sorted({kind for node in kept for kind in _types(node, version)})
    if not types:
        return MixedPrecision("", "", ())
    changes = {"to-add": list[str](), "to-remove": list[str]()}
    lists = {"black-list": {**changes, "to-add": types}, "white-list": changes}
    notes = list(_type_wide(model, kept, types))
    modes = ""
    if any(node.op_type == "AscendQuant" for node in model.graph.all_nodes()):
        notes.append(
            f"There is no {PRECISION_FILE}: high_precision does not go with an INT8 model."
        )
    else:
        modes = _precision_modes(kept, version)
    return MixedPrecision(json.dumps(lists, indent=1) + "\n", modes, tuple(notes))


def _types(node: ir.Node, version: int) -> list[str]:
    """The Ascend op types that `node` certainly becomes, else those that it may become."""
    return [kind for _, kind in certain_nodes(node, version)] or computing_types(node, version)


def _type_wide(model: ir.Model, kept: list[ir.Node], types: list[str]) -> Iterator[str]:
    """What a type on the black list keeps in fp32 beside the islands."""
    version = opset(model)
    every = Counter(kind for node in model.graph.all_nodes() for kind in {*_types(node, version)})
    islands = Counter(kind for node in kept for kind in {*_types(node, version)})
    more = [(kind, every[kind] - islands[kind]) for kind in types if every[kind] > islands[kind]]
    if more:
        told = ", ".join(f"{count} {kind}" for kind, count in more)
        yield f"{MIXLIST_FILE} goes by op type: it also keeps in fp32 what is no island ({told})."


def _precision_modes(kept: list[ir.Node], version: int) -> str:
    """High precision by name where the name is certain and can be written, else by type."""
    names, types = list[str](), set[str]()
    for node in kept:
        certain = [name for name, _ in certain_nodes(node, version)]
        if certain and all(_can_be_written(name) for name in certain):
            names += certain
        else:
            types.update(_types(node, version))
    sections = (("[ByOpType]", sorted(types)), ("[ByNodeName]", names))
    lines = [
        line
        for head, subjects in sections
        if subjects
        for line in (head, *(f"{subject}=high_precision" for subject in subjects))
    ]
    return "".join(f"{line}\n" for line in lines)


def _can_be_written(name: str) -> bool:
    """Whether atc reads ``name=mode`` as it is meant: it splits at the first ``=``, and strips."""
    return "=" not in name and name == name.strip() and name[:1] not in ("#", "[")
