"""Checks of the options in ``[atc.options]``, so that atc is not started to refuse them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final
from unicodedata import category

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.options import (
    DYNAMIC,
    GEARS,
    MIXED_MODES,
    MIXED_MODES_V2,
    NOT_ON_EVERY_CHIP,
    OPTIONS,
    SET_BY_QUANTFLOW,
    AtcOption,
)
from quantflow.errors import did_you_mean

Options = Mapping[str, str]

_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


def option_findings(options: Options, *, int8: bool, chip: str = "") -> list[Finding]:
    """What atc would refuse in these options, and what it would ignore.

    Args:
        options: values by name, without dashes, as `options.option_texts` writes them.
        int8: whether the model holds INT8 layers.
        chip: what the model is compiled for, to be named in what depends on it.
    """
    findings = [finding for rule in _RULES for finding in rule(options)]
    findings += _number_formats(options, chip)
    return findings + list(_with_int8(options) if int8 else _with_fixed_shapes(options))


def _names(options: Options) -> Iterator[Finding]:
    for name in options:
        if name in SET_BY_QUANTFLOW:
            yield _error(name, "quantflow sets this option itself", SET_BY_QUANTFLOW[name])
        elif name.startswith("-"):
            yield _error(name, "option names are given without dashes", f"write {name.lstrip('-')}")
        elif not _NAME.fullmatch(name):
            yield _error(name, "this is no name of an option", "use letters, digits and _")
        elif name not in OPTIONS:
            # A near miss is a misspelling; another name may be an option of a newer atc.
            near = get_close_matches(name, OPTIONS, n=1, cutoff=0.8)
            fix = did_you_mean(name, OPTIONS) if near else "check it against your atc's manual"
            finding = _error if near else _warning
            yield finding(name, "unknown option of atc", fix)


def _values(options: Options) -> Iterator[Finding]:
    for name, value in options.items():
        option = OPTIONS.get(name, AtcOption(name))
        if option.refused:
            yield _error(name, option.refused, "remove it")
        elif not value.strip():
            yield _error(name, "the value is empty (E10003)", "give a value or remove it")
        elif any(category(character) == "Cc" for character in value):
            yield _error(name, f"{value!r} has control characters", "remove them")
        elif option.values and value not in option.values:
            what = f"{value!r} is no value of it ({option.code})"
            yield _error(name, what, did_you_mean(value, option.values))
        elif wrong := option.wrong(value):
            yield _error(name, f"{value!r} {wrong}", "correct it, or remove the option")
        elif option.suffix and not value.endswith(option.suffix):
            yield _error(name, f"the file must be a {option.suffix}", "rename it")
        if option.deprecated:
            yield _warning(name, "the option is deprecated", f"use {option.deprecated}")


def _precision_modes(options: Options) -> Iterator[Finding]:
    if "precision_mode" in options and "precision_mode_v2" in options:
        what = "precision_mode and precision_mode_v2 exclude each other (E10056)"
        yield _error("precision_mode_v2", what, "remove one of them")
    mixed = (
        options.get("precision_mode") in MIXED_MODES
        or options.get("precision_mode_v2") in MIXED_MODES_V2
    )
    if "modify_mixlist" in options and not mixed:
        what = "modify_mixlist needs a mixed precision mode (E10001)"
        yield _error("modify_mixlist", what, "set precision_mode = 'allow_mix_precision'")


def _implementation_modes(options: Options) -> Iterator[Finding]:
    older = sorted({"op_select_implmode", "optypelist_for_implmode"} & options.keys())
    for name in older if "op_precision_mode" in options else ():
        yield _error(name, f"op_precision_mode and {name} exclude each other", f"remove {name}")
    if older == ["optypelist_for_implmode"]:
        what = "optypelist_for_implmode needs op_select_implmode (E10001)"
        yield _error("optypelist_for_implmode", what, "use op_precision_mode instead")


def _dynamic(options: Options) -> Iterator[Finding]:
    given = sorted(DYNAMIC & options.keys())
    if len(given) > 1:
        what = f"{', '.join(given)} exclude each other (E10009)"
        yield _error(given[0], what, "keep one of them")
    if "dynamic_dims" in given:
        if options.get("input_format", "ND") != "ND":
            what = "dynamic_dims needs input_format ND"
            yield _error("dynamic_dims", what, "set input_format = 'ND'")
        if "insert_op_conf" in options:
            what = "dynamic_dims and insert_op_conf exclude each other (E10001)"
            yield _error("insert_op_conf", what, "remove one of them")


def _output_nodes(options: Options) -> Iterator[Finding]:
    """Nodes that output_type names must be among out_nodes."""
    types, nodes = options.get("output_type", ""), options.get("out_nodes", "")
    if ":" not in types or OPTIONS["output_type"].wrong(types):
        return
    outputs = {_node_and_index(entry) for entry in nodes.split(";")}
    for entry in types.split(";"):
        node = _node_and_index(entry)
        if node not in outputs:
            what = f"output_type names {':'.join(node)}, which out_nodes does not (E10001)"
            yield _error("output_type", what, "name it in out_nodes, too")


def _node_and_index(entry: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in entry.split(":")[:2])


def _number_formats(options: Options, chip: str) -> Iterator[Finding]:
    for name in ("precision_mode", "precision_mode_v2"):
        form = NOT_ON_EVERY_CHIP.get(options.get(name, ""))
        if form:
            place = chip or "the chip"
            what = f"not every chip computes in {form}, and it is not known here if {place} does"
            yield _warning(name, what, "see the product list of this mode in your atc's manual")


def _with_fixed_shapes(options: Options) -> Iterator[Finding]:
    for name in sorted(GEARS & options.keys()):
        what = f"{name} needs a -1 in --input_shape, and quantflow writes fixed shapes (E10040)"
        yield _error(name, what, "give each shape as an entry of target.buckets")


def _with_int8(options: Options) -> Iterator[Finding]:
    for name in sorted(DYNAMIC & options.keys()):
        what = "an INT8 model is compiled for fixed shapes only"
        yield _error(name, what, "give each shape as an entry of target.buckets")
    for name, value in options.items():
        if name in OPTIONS and value in OPTIONS[name].refused_with_int8:
            what = f"{value!r} does not go with an INT8 model"
            yield _error(name, what, "remove it: force_fp16 is the default")


_RULES: Final[tuple[Callable[[Options], Iterator[Finding]], ...]] = (
    _names,
    _values,
    _precision_modes,
    _implementation_modes,
    _dynamic,
    _output_nodes,
)


def _error(name: str, what: str, fix: str) -> Finding:
    return Finding(level="error", what=what, where=f"atc.options.{name}", fix=fix)


def _warning(name: str, what: str, fix: str) -> Finding:
    return Finding(level="warning", what=what, where=f"atc.options.{name}", fix=fix)
