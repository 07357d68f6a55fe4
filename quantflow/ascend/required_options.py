"""Options that atc would refuse are refused before anything is done or replaced."""

from __future__ import annotations

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.option_rules import option_findings
from quantflow.ascend.options import option_texts
from quantflow.config import LoadedConfig
from quantflow.errors import Problem, QuantflowError


def wrong_options(loaded: LoadedConfig, *, int8: bool = False) -> list[Finding]:
    """Errors in ``[atc.options]`` themselves.

    Args:
        loaded: the configuration.
        int8: whether the models hold INT8 layers; false where that is not known yet.
    """
    options, chip = option_texts(loaded.config.atc.options), loaded.config.target.chip
    found = option_findings(options, int8=int8, chip=chip)
    return [finding for finding in found if finding.level == "error"]


def require_options(loaded: LoadedConfig, *, int8: bool) -> None:
    """Refuse wrong options, and wrong files that they name.

    Args:
        loaded: the configuration.
        int8: whether the models hold INT8 layers.

    Raises:
        QuantflowError: QF111 for every one of them.
    """
    from quantflow.ascend.file_findings import file_findings  # reads models, unlike the rules

    files = [x for x in file_findings(loaded, int8=int8) if x.level == "error"]
    refuse([*wrong_options(loaded, int8=int8), *files])


def refuse(findings: list[Finding]) -> None:
    """Raise them, if there are any.

    Raises:
        QuantflowError: QF111 for every finding.
    """
    if findings:
        raise QuantflowError(Problem("QF111", x.what, x.where, x.fix) for x in findings)
