"""Groups: all layers that read one quantized tensor fall back to fp16 together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quantflow.artifacts.model_record import Group, Layer


def group_layers(layers: Sequence[Layer]) -> list[Group]:
    """Group the layers that can be INT8 by the tensor they read, in graph order."""
    members = dict[str, list[Layer]]()
    for layer in layers:
        if not layer.float_reason:
            members.setdefault(layer.input, []).append(layer)
    groups = list[Group]()
    taken = set[str]()
    for tensor, group in members.items():
        role = group[0].role
        name = group_name([layer.name for layer in group])
        while name in taken:
            name += "'"
        taken.add(name)
        groups.append(
            Group(
                name=name,
                tensor=tensor,
                role=role if all(layer.role == role for layer in group) else "other",
                layers=tuple(layer.name for layer in group),
                macs=sum(layer.macs for layer in group),
            )
        )
    return groups


def group_name(names: Sequence[str]) -> str:
    """Common module path and differing ends: ``a.self.query+key+value``."""
    if len(names) == 1:
        return names[0]
    parts = [re.split(r"(?<=[./])", name) for name in names]
    shared = 0
    while all(len(p) > shared + 1 and p[shared] == parts[0][shared] for p in parts):
        shared += 1
    return "".join(parts[0][:shared]) + "+".join("".join(p[shared:]) for p in parts)
