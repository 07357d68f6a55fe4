"""The JSON file of ``modify_mixlist``: op types that move between atc's precision lists.

In a mixed mode, types on the black list keep float32, types on the white list go down to 16 bits,
and all others do as the node before them does (atc's manual, 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantflow.artifacts.om_record import Finding

_OpType = Annotated[str, Field(min_length=1)]
_MOST_NAMED = 20
_QUOTED = 100
_FIX = 'write {"black-list": {"to-add": ["SoftmaxV2"]}}, with Ascend\'s op types'


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Changes(_Section):
    """What joins a list, and what leaves it."""

    add: list[_OpType] = Field(default=[], alias="to-add")
    remove: list[_OpType] = Field(default=[], alias="to-remove")


class Mixlist(_Section):
    """The whole file."""

    black: Changes = Field(default=Changes(), alias="black-list")
    white: Changes = Field(default=Changes(), alias="white-list")


def mixlist_types(text: str) -> list[str]:
    """The op types that a file names; none when it is not such a file."""
    try:
        lists = Mixlist.model_validate_json(text)
    except ValidationError:
        return []
    return [*lists.black.add, *lists.black.remove, *lists.white.add, *lists.white.remove]


def mixlist_findings(text: str) -> Iterator[Finding]:
    """What is wrong in a file: its form, or a type that is to join both lists."""
    try:
        lists = Mixlist.model_validate_json(text)
    except ValidationError as error:
        for entry in error.errors(include_url=False, include_input=False)[:_MOST_NAMED]:
            place = ".".join(map(str, entry["loc"]))[:_QUOTED]
            yield _error(f"{place}: {entry['msg']}" if place else entry["msg"], _FIX)
        return
    for kind in sorted(set(lists.black.add) & set(lists.white.add))[:_MOST_NAMED]:
        yield _error(f"{kind[:_QUOTED]} is to join both lists", "keep it in one of them")


def _error(what: str, fix: str) -> Finding:
    return Finding(level="error", what=what, where="atc.options.modify_mixlist", fix=fix)
