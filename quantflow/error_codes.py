"""The table of error codes: title and explanation, read by `quantflow explain CODE`."""

from __future__ import annotations

from typing import Final, NamedTuple


class ErrorCode(NamedTuple):
    """A kind of problem: a short title, and what it means and what to do about it."""

    title: str
    explanation: str


ERROR_CODES: Final[dict[str, ErrorCode]] = {
    # 1xx configuration and usage
    "QF101": ErrorCode(
        "configuration file not readable",
        "The file named by --config does not exist or is not valid TOML. "
        "`quantflow init` writes one that is complete and commented.",
    ),
    "QF102": ErrorCode(
        "unknown configuration key",
        "Keys are checked so that a misspelt setting is never silently ignored.",
    ),
    "QF103": ErrorCode(
        "configuration value refused",
        "A value has the wrong type, the wrong unit or lies outside its bounds. Units are in the "
        "names: `percentile` runs from 0 to 100, `*_fraction` from 0 to 1.",
    ),
    "QF104": ErrorCode(
        "file named in the configuration is missing",
        "Relative paths are resolved against the directory of the configuration file. "
        "`package:NAME/rest/of/path` names a file inside an installed Python package.",
    ),
    "QF105": ErrorCode(
        "function named in the configuration cannot be imported",
        "`module:function` is imported with the configuration's directory first on the path.",
    ),
    "QF106": ErrorCode(
        "--set is not of the form section.key=value",
        "The value is read as TOML; text that is not valid TOML is taken as a string.",
    ),
    # 2xx model
    "QF205": ErrorCode(
        "model does not load",
        "onnxruntime refused the model. Its message follows; `quantflow prepare` repeats it.",
    ),
    # 3xx data
    # 4xx artifacts
    "QF401": ErrorCode(
        "artifact missing",
        "A file that a stage should have written is not there. Rerun the stage.",
    ),
    "QF402": ErrorCode(
        "artifact not valid",
        "A JSON file does not hold the record it should: it was truncated, or edited wrongly.",
    ),
    "QF403": ErrorCode(
        "samples cannot be read",
        "The safetensors file of a set is damaged or does not match its set.json.",
    ),
    "QF404": ErrorCode(
        "an earlier stage has not run",
        "Stages read what earlier ones wrote. `quantflow run` runs all of them in order.",
    ),
    "QF405": ErrorCode(
        "artifact changed since it was written",
        "A file's digest is not the one in its stage.json, so later results would not be what they "
        "say. Rerun the stage that writes it with --force.",
    ),
    "QF406": ErrorCode(
        "run directory in use",
        "Two processes writing into one run directory would mix their results.",
    ),
    "QF407": ErrorCode(
        "artifact is stale",
        "It was made from another configuration or from other inputs than those in force.",
    ),
    # 5xx ranges, plan and export
    # 6xx environment
    "QF601": ErrorCode(
        "execution provider missing",
        "The installed onnxruntime has no support for the device named in `runtime.provider`.",
    ),
    # 7xx atc
}
