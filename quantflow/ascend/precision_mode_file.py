"""The file of ``op_precision_mode``: how operators are implemented, by type or by name.

A line is ``SoftmaxV2=high_precision``; ``[ByOpType]`` and ``[ByNodeName]`` say what the lines after
them are about. atc passes over lines that it does not understand, so that a slip has no effect and
no message (its sources, 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.errors import did_you_mean

BY_OP_TYPE: Final = "[ByOpType]"
BY_NODE_NAME: Final = "[ByNodeName]"
HIGH_PRECISION: Final = "high_precision"
IMPLEMENTATION_MODES: Final = frozenset(
    (
        *(HIGH_PRECISION, "high_performance", "super_performance", "keep_fp16", "norm_class"),
        *("enable_float_32_execution", "enable_hi_float_32_execution"),
        "support_out_of_bound_index",
    )
)

_WHERE: Final = "atc.options.op_precision_mode"
_MOST_NAMED: Final = 20
_QUOTED: Final = 100


def precision_modes(text: str) -> Iterator[tuple[str, str, str]]:
    """``(section, type or name, mode)`` of every line that atc reads.

    Lines before any section are about types. Those without ``=`` are sections or nothing, those
    that start with ``#`` nothing.
    """
    section = BY_OP_TYPE
    for line in text.splitlines():
        subject, equals, mode = (part.strip() for part in line.partition("="))
        if not equals:
            section = subject if subject in (BY_OP_TYPE, BY_NODE_NAME) else section
        elif not line.startswith("#"):
            yield section, subject, mode


def precision_mode_findings(text: str, *, int8: bool) -> Iterator[Finding]:
    """What has no effect in a file, and what does not go with an INT8 model.

    Args:
        text: of the file.
        int8: whether the model holds INT8 layers.
    """
    modes = list(precision_modes(text))
    ignored = [line for line in map(str.strip, text.splitlines()) if _is_no_section(line)]
    for line in ignored[:_MOST_NAMED]:
        what = f"{line[:_QUOTED]!r} is no section and no mode, and atc ignores it"
        yield _warning(what, f"write {BY_OP_TYPE}, {BY_NODE_NAME} or name=mode")
    unknown = [entry for entry in modes if not entry[1] or entry[2] not in IMPLEMENTATION_MODES]
    for _, subject, mode in unknown[:_MOST_NAMED]:
        what = f"'{subject[:_QUOTED]}={mode[:_QUOTED]}' gives no mode that atc knows: ignored"
        yield _warning(what, did_you_mean(mode[:_QUOTED], IMPLEMENTATION_MODES))
    if int8 and any(mode == HIGH_PRECISION for _, _, mode in modes):
        what = f"{HIGH_PRECISION} does not go with an INT8 model"
        yield Finding(level="error", what=what, where=_WHERE, fix="remove those lines")


def _is_no_section(line: str) -> bool:
    is_comment = not line or line.startswith("#")
    return not is_comment and "=" not in line and line not in (BY_OP_TYPE, BY_NODE_NAME)


def _warning(what: str, fix: str) -> Finding:
    return Finding(level="warning", what=what, where=_WHERE, fix=fix)
