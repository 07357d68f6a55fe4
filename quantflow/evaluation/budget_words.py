"""What is said of a loss that is within the budget on the samples of the experiments."""

from __future__ import annotations

from quantflow.evaluation.asked import Missed
from quantflow.evaluation.diagnosis_facts import Facts
from quantflow.evaluation.experiments import INT8
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.sensitivity.obstacles import told


def nothing(facts: Facts) -> str:
    """By how much the budget is met."""
    (measures,) = (x.measures for x in facts.found.experiments if x.name == INT8)
    limited = [x for x in measures if x.limit is not None]
    said = f"Nothing to explain: int8 is within the budget on {facts.samples}, "
    said += ", ".join(map(told, limited))
    barely = "; barely, for the 95% interval reaches beyond the limit"
    said += "" if all(x.meets_surely for x in limited) else barely
    return f"{said}.{_in_fp16(facts)}"


def explained(facts: Facts, cause: str) -> str:
    """The cause, and why it is looked for although these samples are within the budget.

    Args:
        facts: within the budget.
        cause: what the loss comes from, as a sentence.
    """
    if facts.missed is not None:
        return f"{_although(facts, facts.missed)} {cause}"
    return f"Within the budget; {cause[0].lower()}{cause[1:]}{_in_fp16(facts)}"


def _although(facts: Facts, missed: Missed) -> str:
    if missed.figure:
        return (
            f"The comparison misses the budget in {missed.figure} ({missed.key}), which is not "
            f"measured here: the loss is told in {facts.found.criterion.name}."
        )
    on = f"on {missed.samples}"
    return f"Within the budget on {facts.samples}, where the comparison misses it {on}."


def _in_fp16(facts: Facts) -> str:
    """What the plan leaves in fp16, for without it the loss would be another."""
    plan = facts.setup.plan
    count, of = len(plan.fp16_groups), len(plan.groups)
    if not count:
        return ""
    share = 100 * int8_mac_fraction(facts.trials.record, facts.trials.factors(facts.setup))
    verb, they = ("is", "it") if count == 1 else ("are", "they")
    return (
        f" {count} of {of} groups {verb} in fp16 by the plan, with {share:.1f}% of MACs in INT8: "
        f"what loss {they} would add in INT8 is not in these figures."
    )
