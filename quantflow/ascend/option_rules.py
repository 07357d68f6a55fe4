"""Checks of the options in ``[atc.options]``, so that atc is not started to refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.options import (
    DYNAMIC,
    MIXED_MODES,
    MIXED_MODES_V2,
    OPTIONS,
    SET_BY_QUANTFLOW,
)
from quantflow.errors import did_you_mean

Options = Mapping[str, str]


def option_findings(options: Options, *, int8: bool) -> list[Finding]:
    """What atc would refuse in these options, and what it would ignore.

    Args:
        options: values by name, without dashes.
        int8: whether the model holds INT8 layers.
    """
    findings = [finding for rule in _RULES for finding in rule(options)]
    return findings + (list(_with_int8(options)) if int8 else [])


def _names(options: Options) -> Iterator[Finding]:
    for name in options:
        if name in SET_BY_QUANTFLOW:
            yield _error(name, "quantflow sets this option itself", SET_BY_QUANTFLOW[name])
        elif name.startswith("-"):
            yield _error(name, "option names are given without dashes", f"write {name.lstrip('-')}")
        elif name not in OPTIONS:
            # A near miss is a misspelling; another name may be an option of a newer atc.
            near = get_close_matches(name, OPTIONS, n=1, cutoff=0.8)
            level = "error" if near else "warning"
            fix = did_you_mean(name, OPTIONS) if near else "check it against your atc's manual"
            yield Finding(level=level, what="unknown option of atc", where=_key(name), fix=fix)


def _values(options: Options) -> Iterator[Finding]:
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            continue
        if option.refused:
            yield _error(name, option.refused, "remove it")
        elif not value.strip():
            yield _error(name, "the value is empty (E10003)", "give a value or remove it")
        elif option.values and value not in option.values:
            fix = did_you_mean(value, option.values)
            yield _error(name, f"{value!r} is no value of it (E10001)", fix)
        if option.deprecated:
            what = "the option is deprecated"
            yield Finding(
                level="warning", what=what, where=_key(name), fix=f"use {option.deprecated}"
            )


def _exclusions(options: Options) -> Iterator[Finding]:
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
    if "op_precision_mode" in options and "op_select_implmode" in options:
        what = "op_precision_mode and op_select_implmode exclude each other"
        yield _error("op_select_implmode", what, "remove op_select_implmode")


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
            what = "dynamic_dims and insert_op_conf exclude each other"
            yield _error("insert_op_conf", what, "remove one of them")


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
    _exclusions,
    _dynamic,
)


def _key(name: str) -> str:
    return f"atc.options.{name}"


def _error(name: str, what: str, fix: str) -> Finding:
    return Finding(level="error", what=what, where=_key(name), fix=fix)
