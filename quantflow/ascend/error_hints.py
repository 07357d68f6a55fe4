"""atc's error codes, and messages without one, in plain words.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class ErrorHint(NamedTuple):
    """What a code means, and what to do."""

    cause: str
    fix: str


_CODE = re.compile(r"\bE[0-9A-Z][0-9]{4}\b")
_OPTION = "check [atc.options] against the manual of your CANN version"
_NO_PARSER = ErrorHint(
    "atc has no parser for an op type at this opset",
    "set target.cann to your CANN version and export again; QDQ models are not accepted",
)
_NO_KERNEL = ErrorHint(
    "the chip has no kernel for an op with this dtype or format",
    "check target.chip, that the ops package of this chip is installed, and keep the op in fp16",
)
_PATH = ErrorHint(
    "a path is missing, not readable, or holds characters atc refuses",
    "use a path of letters, digits and _ - . /",
)
_PACKAGES = (
    "pip install numpy decorator sympy cffi protobuf attrs pyyaml pathlib2 scipy requests "
    "psutil absl-py"
)
_FILE = ErrorHint("a file cannot be opened, read or parsed", "check that it is complete")

HINTS: dict[str, ErrorHint] = {
    "E10001": ErrorHint("an option has a value that atc does not take", _OPTION),
    "E10002": ErrorHint("--input_shape cannot be read", "check target.buckets and input names"),
    "E10003": ErrorHint("an option has an invalid value", _OPTION),
    "E10004": ErrorHint("an option has an empty value", _OPTION),
    "E10005": ErrorHint("an option takes true or false", _OPTION),
    "E10006": ErrorHint("an option takes 0 or 1", _OPTION),
    "E10007": ErrorHint("--framework is not known", "it is 5 for ONNX"),
    "E10009": ErrorHint("dynamic options exclude each other", "keep one; INT8 models take none"),
    "E10010": ErrorHint("--log has an unknown level", "use debug, info, warning, error or null"),
    "E10014": ErrorHint("an option has an index that is no number", _OPTION),
    "E10016": ErrorHint("an option names a node that is not in the model", "check its spelling"),
    "E10017": ErrorHint("an option names a node that is no input", "name an input of the model"),
    "E10018": ErrorHint("only the batch dimension may be -1", "give static shapes"),
    "E10020": _PATH,
    "E10021": _PATH,
    "E10022": _PATH,
    "E10035": ErrorHint("too few gears of a dynamic option", "INT8 models take static shapes"),
    "E10036": ErrorHint("too many gears of a dynamic option", "INT8 models take static shapes"),
    "E10037": ErrorHint("gears have different lengths", "INT8 models take static shapes"),
    "E10038": ErrorHint("a gear has a size that is not positive", "INT8 models take static shapes"),
    "E10039": ErrorHint("a gear is given twice", "INT8 models take static shapes"),
    "E10040": ErrorHint("a dynamic option needs a -1 in --input_shape", "remove the option"),
    "E10041": ErrorHint("the model could not be loaded", "check that the file is complete"),
    "E10048": ErrorHint("--input_shape_range cannot be read", "INT8 models take static shapes"),
    "E10054": ErrorHint("a required option is empty", "set target.chip"),
    "E10055": ErrorHint("the operation is not supported", _OPTION),
    "E10056": ErrorHint(
        "precision_mode and precision_mode_v2 are given together", "remove one of them"
    ),
    "E13000": _FILE,
    "E13001": _FILE,
    "E13002": _FILE,
    "E13003": _FILE,
    "E13009": ErrorHint("two nodes share one name", "rerun `quantflow export-onnx`"),
    "E13010": _NO_PARSER,
    "E16001": ErrorHint("the model, or a node, has no input", "check the exported model"),
    "E16002": _NO_PARSER,
    "E19010": _NO_PARSER,
    "EZ9010": _NO_PARSER,
    "E19999": ErrorHint(
        "an internal error of atc", "see ~/ascend/log/**/plog-*.log for the first error"
    ),
    "E20001": ErrorHint(
        "a kernel failed to compile", "see ~/ascend/log; keep the op in fp16 or pin its layer"
    ),
    "EZ3002": _NO_KERNEL,
    "EZ3003": _NO_KERNEL,
    "EH9999": ErrorHint(
        "a library call failed, often for want of a Python package of atc", _PACKAGES
    ),
}
"""Hints by code."""

PATTERNS: dict[str, ErrorHint] = {
    r"error while loading shared libraries|cannot open shared object": ErrorHint(
        "a library was not found",
        "source CANN's set_env.sh; without an NPU driver, put <cann>/<arch>-linux/devlib in front "
        "of LD_LIBRARY_PATH",
    ),
    r"ModuleNotFoundError|ImportError|No module named": ErrorHint(
        "a Python package of atc is missing", _PACKAGES
    ),
    r"No space left on device": ErrorHint("the disk is full", "free some space"),
    r"Cannot allocate memory|bad_alloc|MemoryError|[Oo]ut of memory|\bOOM\b": ErrorHint(
        "memory ran out", "convert one model at a time; lower TE_PARALLEL_COMPILER"
    ),
    r"Permission denied": ErrorHint("a file may not be read or written", "check its owner"),
    r"[Ss]egmentation fault|core dumped": ErrorHint(
        "atc crashed", "see ~/ascend/log/**/plog-*.log for what came before"
    ),
    r"[Nn]ot supported|[Uu]nsupported|[Nn]ot support\b": ErrorHint(
        "atc does not support something", "see the line, and ~/ascend/log/**/plog-*.log"
    ),
}
"""Hints for lines that have no code, by regular expression; the first that matches counts."""

_ANY = re.compile("|".join([_CODE.pattern, r"\b(?:error|Error|ERROR)\b", *PATTERNS]))


def error_codes(text: str) -> list[str]:
    """The error codes in a line of atc's output, in order."""
    return _CODE.findall(text)


def tells_an_error(line: str) -> bool:
    """Whether a line of atc's output holds an error code, or otherwise tells an error."""
    return _ANY.search(line) is not None


def pattern_hint(line: str) -> ErrorHint | None:
    """The hint for a line without a code, if it is of a known pattern."""
    return next((hint for pattern, hint in PATTERNS.items() if re.search(pattern, line)), None)


def explain(codes: Iterable[str]) -> str:
    """The codes in one sentence each; a code without a hint stands by itself."""
    parts = [f"{code}: {in_words(HINTS[code])}" if code in HINTS else code for code in codes]
    return "; ".join(parts)


def in_words(hint: ErrorHint) -> str:
    """A hint as text: the cause, and in brackets what to do."""
    return f"{hint.cause} ({hint.fix})"
