"""atc's error codes in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple


class ErrorHint(NamedTuple):
    """What a code means, and what to do."""

    cause: str
    fix: str


_CODE: Final = re.compile(r"\bE[0-9A-Z][0-9]{4}\b")
_ERROR: Final = re.compile(_CODE.pattern + r"|(?i:\berror\b)")

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
_FILE = ErrorHint("a file cannot be opened, read or parsed", "check that it is complete")

HINTS: Final[dict[str, ErrorHint]] = {
    "E10001": ErrorHint("an option has a value that atc does not take", _OPTION),
    "E10002": ErrorHint("--input_shape cannot be read", "check target.buckets and input names"),
    "E10003": ErrorHint("an option has an invalid value", _OPTION),
    "E10004": ErrorHint("an option has an empty value", _OPTION),
    "E10007": ErrorHint("--framework is not known", "it is 5 for ONNX"),
    "E10009": ErrorHint("dynamic options exclude each other", "keep one; INT8 models take none"),
    "E10010": ErrorHint("--log has an unknown level", "use debug, info, warning, error or null"),
    "E10016": ErrorHint("an option names a node that is not in the model", "check its spelling"),
    "E10017": ErrorHint("an option names a node that is no input", "name an input of the model"),
    "E10018": ErrorHint("only the batch dimension may be -1", "give static shapes"),
    "E10020": _PATH,
    "E10021": _PATH,
    "E10022": _PATH,
    "E10035": ErrorHint("too few gears of a dynamic option", "INT8 models take static shapes"),
    "E10036": ErrorHint("too many gears of a dynamic option", "INT8 models take static shapes"),
    "E10040": ErrorHint("a dynamic option needs a -1 in --input_shape", "remove the option"),
    "E10041": ErrorHint("the model could not be loaded", "check that the file is complete"),
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
        "a library call failed, often for want of a Python package of atc",
        "pip install numpy decorator sympy cffi protobuf attrs pyyaml pathlib2 scipy requests "
        "psutil absl-py",
    ),
}
"""Hints by code."""


def error_codes(text: str) -> list[str]:
    """The error codes in a line of atc's output, in order."""
    return _CODE.findall(text)


def tells_an_error(line: str) -> bool:
    """Whether a line of atc's output holds an error code, or calls itself an error."""
    return _ERROR.search(line) is not None


def explain(codes: Iterable[str]) -> str:
    """The codes in one sentence each; a code without a hint stands by itself."""
    parts = [
        f"{code}: {HINTS[code].cause} ({HINTS[code].fix})" if code in HINTS else code
        for code in codes
    ]
    return "; ".join(parts)
