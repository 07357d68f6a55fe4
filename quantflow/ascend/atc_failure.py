"""Why a run of atc did not convert its model.

A conversion counts only when exit code, success line and the .om file agree, since each of them
alone has been seen to say yes when another said no.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from .error_hints import explain, in_words, pattern_hint
from .run_atc import AtcOutcome


def problem_of(outcome: AtcOutcome, timeout_s: float) -> str:
    """What of a run alone says that it did not convert the model; empty where nothing does."""
    if outcome.timed_out:
        return f"atc took longer than {timeout_s} s (atc.timeout_s) and was ended"
    if outcome.exit_code != 0:
        said = "although it announced success" if outcome.success_line else "without success"
        number = outcome.exit_code
        if number < 0:
            memory = ", which happens where memory runs out" if number == -signal.SIGKILL else ""
            return f"atc was ended by signal {-number}{memory}, {said}"
        return f"atc ended with exit code {number}, {said}"
    if not outcome.success_line:
        return "atc ended with exit code 0 but never announced success"
    return ""


def failure_text(problem: str, outcome: AtcOutcome, places: Sequence[str], log: str) -> str:
    """Why a conversion failed, in one line.

    Args:
        problem: of the run or of its .om file.
        outcome: of the run.
        places: that its messages name, see `error_places`.
        log: where the output is.
    """
    said = f"atc said {outcome.first_error!r}" if outcome.first_error else ""
    where = f"that is {', '.join(places)}" if places else ""
    hint = None if outcome.error_codes else pattern_hint(outcome.first_error)
    hints = explain(outcome.error_codes) if hint is None else in_words(hint)
    return "; ".join(filter(None, (problem, said, where, hints, f"log: {log}")))
