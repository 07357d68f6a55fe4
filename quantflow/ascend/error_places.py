"""The nodes that atc's messages name, as nodes of the ONNX model and layers of the network.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

MOST_PLACES = 5
"""Nodes told of one conversion."""
MOST_NAMES = 200
"""Words of one line that are looked up."""
LONGEST_LINE = 4000
"""Characters of a line that are looked at."""

_MARKED = re.compile(r"'([^']+)'|\"([^\"]+)\"|\[([^\[\]]+)\]|\(([^()]+)\)|<([^<>]+)>|`([^`]+)`")
_LIKE_A_NAME = re.compile(r"[/._0-9]")
_TYPE_NEXT = re.compile(r"(?i)type\W{0,3}$")
_WORD = re.compile(r"[^\s'\"`()\[\]<>{},;=]+")
_SAYS_SO = re.compile(r"(?i)^(?:op|ops|operator|node|nodes|layer|name|opname|op_name|node_name)$")


def error_places(
    lines: Iterable[str], layers: Mapping[str, str], onnx_node: Callable[[str], str | None]
) -> list[str]:
    """Places that these lines name, each once, in order: ``node 'X' (layer 'Y')``.

    Args:
        lines: of atc's output, those that tell errors.
        layers: the layer that a node belongs to, by name of the node; empty where it is in none.
        onnx_node: the node of the model that a name after atc's parser stands for, or None.
    """
    found: list[str] = []
    for line in lines:
        for name in named_nodes(line, onnx_node):
            layer = layers.get(name, "")
            place = f"node {name!r}" + (f" (layer {layer!r})" if layer else "")
            if place not in found:
                found.append(place)
            if len(found) == MOST_PLACES:
                return found
    return found


def named_nodes(line: str, onnx_node: Callable[[str], str | None]) -> list[str]:
    """The nodes of the model that a line names, in order.

    What stands in quotes or brackets is tried as it is, and item by item, but not what is said to
    be a type, for nodes may be called "Mul". A bare word counts where it looks like a node's name
    (a slash, dot, underscore or digit in it) or follows a word such as "node".
    """
    found: dict[str, None] = {}
    for candidate in _candidates(line[:LONGEST_LINE]):
        for name in (candidate, candidate.rstrip(".:!?"), candidate.strip(".:!?*")):
            node = onnx_node(name) if name else None
            if node is not None:
                found[node] = None
                break
    return list(found)


def node_finder(known: Mapping[str, str], suffixes: Iterable[str]) -> Callable[[str], str | None]:
    """What `target.parser_renames.onnx_node` does, for a folder without that package.

    Args:
        known: names of the nodes in the model.
        suffixes: that atc's parser puts behind names.
    """
    endings = tuple(suffixes)

    def find(name: str) -> str | None:
        if name in known:
            return name
        stem = name.rstrip("0123456789")
        bases = [name[: len(name) - len(x)] for x in endings if name.endswith(x)]
        numbered = [x for x in endings if x.endswith("_") and stem.endswith(x)]
        bases += [stem[: len(stem) - len(x)] for x in numbered]
        return max((base for base in bases if base in known), key=len, default=None)

    return find


def _candidates(line: str) -> list[str]:
    found: list[tuple[int, str]] = []
    for match in _MARKED.finditer(line):
        marked = next(group for group in match.groups() if group is not None)
        if _TYPE_NEXT.search(line, 0, match.start()):
            continue
        found.append((match.start(), marked.strip()))
        for index, item in enumerate(re.split(r"[,;]\s*|\s+", marked)):
            if index == 0 or _LIKE_A_NAME.search(item):  # `[name, Type]`
                found.append((match.start() + index, item.strip("'\"` ")))
    before = ""
    for match in _WORD.finditer(line):
        word = match.group()
        # `node:name` is one word, and so is a name with colons in it.
        tail = word.partition(":")[2].lstrip(":") if _SAYS_SO.match(word.partition(":")[0]) else ""
        if tail:
            found.append((match.start(), tail))
        if _LIKE_A_NAME.search(word) or _SAYS_SO.match(before.rstrip(":")):
            found.append((match.start(), word))
        before = word
    ordered = sorted(found, key=lambda entry: entry[0])
    return [text for _, text in ordered[:MOST_NAMES]]
