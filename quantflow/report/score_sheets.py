"""Tables of what hurts: every group, and each side of quantization alone."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.sweep_record import Effect, GroupScore, SideResult, SweepRecord
from quantflow.report.columns import Column, sheet_of
from quantflow.report.measures import measure_columns
from quantflow.report.quantities import DAMAGES, FIGURES, VALUES, Quantity
from quantflow.report.sheet import Sheet, count_text, share_text

SPARE = {
    **{"others interval": 9, "MACs": 8, "role": 7, "samples": 6, "value": 5, "places": 4},
    **{"side": 3, "others": 2},
}
"""In which order a narrow terminal leaves out columns of scores, the largest first."""


def scores_sheet(sweep: SweepRecord) -> Sheet:
    """Groups from most to least harmful."""
    scores = sweep.scores
    if not scores:
        note = f"Policy {sweep.policy} needs no scores; policy auto does."
        return sheet_of("Sensitivity", _subjects(scores), note)
    damage = DAMAGES[sweep.metric]
    columns = [*_subjects(scores), *_values(sweep.metric, [x.one_in for x in scores])]
    columns += _effects("damage", damage, [x.one_in for x in scores])
    spare = SPARE["others"], SPARE["others interval"]
    columns += _effects("among others", damage, [x.one_out for x in scores], spare)
    columns += _side("weights", damage, [x.weights for x in scores])
    columns += _side("activations", damage, [x.activations for x in scores])
    places = tuple(_places(x) for x in scores)
    columns.append(Column("places", places, spare=SPARE["places"]))
    if len({x.samples for x in scores}) > 1:
        cells = tuple(count_text(x.samples) for x in scores)
        columns.append(Column("samples", cells, spare=SPARE["samples"]))
    return sheet_of("Sensitivity", columns, " ".join(_remarks(sweep)))


def _subjects(scores: Sequence[GroupScore]) -> list[Column]:
    return [
        Column("rank", tuple(_ranks(scores))),
        Column("group", tuple(x.group for x in scores), "l"),
        Column("role", tuple(x.role for x in scores), "l", spare=SPARE["role"]),
        Column("MACs", tuple(share_text(x.mac_fraction) for x in scores), spare=SPARE["MACs"]),
    ]


def _values(metric: str, effects: Sequence[Effect]) -> list[Column]:
    if metric not in VALUES:
        return []
    head, text = VALUES[metric]
    return [Column(head, tuple(text(x.value) for x in effects), spare=SPARE["value"])]


def _effects(
    head: str, damage: Quantity, effects: Sequence[Effect], spare: tuple[int, int] = (0, 0)
) -> list[Column]:
    intervals = tuple(damage.interval_text(x.low, x.high) for x in effects)
    return [
        Column(head, tuple(damage.damage_text(x.damage) for x in effects), spare=spare[0]),
        Column("95% interval", intervals, spare=spare[1]),
    ]


def _side(head: str, damage: Quantity, found: Sequence[float | None]) -> list[Column]:
    """What was measured of one side; no column if nothing was."""
    cells = tuple("-" if x is None else damage.damage_text(x) for x in found)
    return [Column(head, cells, spare=SPARE["side"])] if set(cells) != {"-"} else []


def _ranks(scores: Sequence[GroupScore]) -> list[str]:
    """Places from 1; groups whose order may be chance share one: ``1``, ``2=``, ``2=``, ``4``."""
    ranks = list[str]()
    for place, score in enumerate(scores, 1):
        tied_before = place > 1 and scores[place - 2].tied
        shared = tied_before or (score.tied and place < len(scores))
        ranks.append(ranks[-1] if tied_before else f"{place}{'=' if shared else ''}")
    return ranks


def _places(score: GroupScore) -> str:
    low, high = score.rank_low, score.rank_high
    return str(low) if low == high else f"{low} to {high}"


def _remarks(sweep: SweepRecord) -> list[str]:
    """What a reader must know to read the scores."""
    fewest, most = (end(x.samples for x in sweep.scores) for end in (min, max))
    samples = f"on {count_text(most)} calibration samples"
    if fewest < most:
        samples = f"on up to {count_text(most)} calibration samples, fewer where those tell"
    remarks = [
        f"Damage: {DAMAGES[sweep.metric].name} when the group alone is INT8, {samples}. Among "
        "others: what it adds when all other groups are INT8.",
    ]
    if any(x.weights is not None or x.activations is not None for x in sweep.scores):
        told = f", on {count_text(sweep.sides_samples)} samples"
        remarks.append(f"Weights, activations: damage with only these of it in INT8{told}.")
    remarks.append(
        "Places: ranks in 95% of bootstrap resamples; groups that share a rank (=) are tied, "
        "attention first."
    )
    if sweep.rank_stability is not None:
        remarks.append(
            f"Rank stability {sweep.rank_stability:.2f}: Spearman's correlation with the ranking "
            "of a resample."
        )
    if sweep.in_out_correlation is not None:
        remarks.append(
            f"Damage alone and among others correlate by {sweep.in_out_correlation:.2f}."
        )
    return remarks


_SIDES = {
    "fp16": "fp16, no layer INT8",
    "weights": "weights INT8, all else fp32",
    "activations": "activations INT8, all else fp32",
    "int8": "int8, every group",
}


def sides_sheet(sweep: SweepRecord) -> Sheet:
    """Everything in INT8 beside each side of it alone, with what the budget asks for."""
    sides = sweep.sides
    met = tuple("yes" if all(m.meets for m in x.measures) else "no" for x in sides)
    columns = [
        Column("what is not fp32", tuple(_SIDES[x.side] for x in sides), "l", foot="budget"),
        Column("meets budget", met, "l"),
        *measure_columns([x.measures for x in sides]),
    ]
    note = f"On {count_text(sweep.verification_samples)} held-out samples. {_which_hurts(sides)}"
    if not sides:
        note = f"Policy {sweep.policy} does not measure them; policy auto does."
    return sheet_of("Sides", columns, note, footed=bool(sides))


def _which_hurts(sides: Sequence[SideResult]) -> str:
    """Which side does more, by the first measure, unless their intervals overlap."""
    first = {x.side: x.measures[0] for x in sides}
    if not {"weights", "activations"} <= set(first):
        return ""
    weights, activations = first["weights"], first["activations"]
    name = FIGURES[weights.metric].name
    if weights.low > activations.high:
        return f"By the {name}, INT8 weights hurt more than INT8 activations."
    if activations.low > weights.high:
        return f"By the {name}, INT8 activations hurt more than INT8 weights."
    if any(x.damage != x.damage for x in (weights, activations)):  # NaN: an output is broken
        return "A side that breaks the outputs has no figure."
    return f"By the {name}, neither side clearly hurts more than the other."
