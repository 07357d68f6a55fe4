"""Scores of all groups, with samples spent where they decide.

Successive halving: all groups are measured on the first samples, the more harmful half of them on
as many more, and half of those on the rest. Groups that are tied with the last one kept go on too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sweep_record import Effect, GroupScore
from quantflow.numerics.resample import resampled_means, spearman
from quantflow.progress import Progress
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.ranking import Ranking, rank, survivors
from quantflow.sensitivity.scores import Way, score_groups
from quantflow.sensitivity.segmented_model import SegmentedModel

FIRST_SAMPLES = 2
"""Fewest samples that groups are dropped on."""

SIDED_GROUPS = 8
"""Groups, the most harmful ones, whose two sides are measured apart."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Assessed:
    """What was found of the groups.

    Attributes:
        scores: most harmful first.
        sides_samples: how many the sides of a group were measured on.
        stability: mean rank correlation of the order with those of bootstrap resamples, or None.
        in_out_correlation: rank correlation of one-in with one-out damages, or None.
    """

    scores: tuple[GroupScore, ...]
    sides_samples: int
    stability: float | None
    in_out_correlation: float | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Measures groups.

    Attributes:
        model, probe: the bucket in segments, and the search samples.
        record: groups and layers.
        metric: name of the metric that groups are ranked by.
        halving: whether only the more harmful groups see all samples.
        seed: of the bootstrap.
        ledger: what is known.
        progress: called as work goes on.
    """

    model: SegmentedModel
    probe: Probe
    record: ModelRecord
    metric: str
    halving: bool
    seed: int
    ledger: Ledger
    progress: Progress

    def run(self) -> Assessed:
        """Score every group."""
        groups = self.record.groups
        shape = (len(groups), len(self.probe))
        one_in, one_out, everything = (np.full(shape, np.nan) for _ in range(3))
        left = list(range(len(groups)))
        parts = portions(self.probe, halving=self.halving)
        for number, part in enumerate(parts):
            seen = self.probe.samples_in(part)
            span = slice(seen.start, seen.stop)
            told = f"{len(left)} groups, samples {seen.start + 1} to {seen.stop}"
            names = [groups[index].name for index in left]
            everything[left, span] = self._everything(part)
            one_in[left, span] = self.values("in", names, part, f"each alone in INT8: {told}")
            one_out[left, span] = self.values("out", names, part, f"all but each: {told}")
            if number + 1 < len(parts):
                ranking = self._rank(one_in[left, : span.stop], left)
                keep = max(1, len(groups) >> (number + 1))
                left = [left[index] for index in survivors(ranking, keep)]
        ranking = self._rank(one_in, range(len(groups)))
        sided = [groups[index].name for index in ranking.order[:SIDED_GROUPS]]
        part = portions(self.probe, halving=True)[0]
        sides = self._sides(sided, part)
        harm = self._damage(one_in)
        with np.errstate(invalid="ignore"):  # where both are broken, there is nothing to tell
            part_of_all = self._damage(everything) - self._damage(one_out)
        return _assessed(
            self.record,
            ranking,
            self._effects(one_in, harm),
            self._effects(one_out, part_of_all),
            (~np.isnan(one_in)).sum(axis=1),
            sides,
            len(self.probe.samples_in(part)),
        )

    def values(self, way: Way, names: Sequence[str], part: range, told: str) -> Matrix:
        """Values of some groups, infinitely bad ones where an output is broken.

        Args:
            way: what is INT8.
            names: of the groups.
            part: numbers of the batches.
            told: what progress is reported as.

        Returns:
            ``(G', S')`` float64.
        """
        found = score_groups(
            self.model,
            self.probe,
            self.metric,
            way,
            names,
            part,
            self.ledger,
            lambda done, total: self.progress(told, done, total),
        )
        return self._unbroken(np.stack([found[name] for name in names]), part)

    def _everything(self, part: range) -> Matrix:
        """``(S',)`` values with every group in INT8."""

        def measured() -> list[float]:
            model, probe = self.model, self.probe
            found = probe.measure(
                lambda number: model.run(probe.feeds(number), model.groups), [self.metric], part
            )
            return found[self.metric].tolist()

        key = f"everything {part.start}-{part.stop}"
        return self._unbroken(np.array(self.ledger.recall(key, measured), np.float64), part)

    def _sides(self, names: Sequence[str], part: range) -> dict[Way, dict[str, float]]:
        """Mean damage of either side of some groups."""
        found = dict[Way, dict[str, float]]()
        for side in ("weights", "activations"):
            values = self.values(side, names, part, f"only {side} of {len(names)} groups")
            of_float = self._of_float(part)
            damage = self.probe.metrics[self.metric].damage(values, of_float)
            means = damage[:, ~np.isnan(of_float)].mean(axis=1)
            found[side] = dict(zip(names, means.tolist(), strict=True))
        return found

    def _rank(self, one_in: Matrix, which: Sequence[int]) -> Ranking:
        groups = [self.record.groups[index] for index in which]
        return rank(groups, self._damage(one_in), seed=self.seed)

    def _damage(self, values: Matrix) -> Matrix:
        metric = self.probe.metrics[self.metric]
        return metric.damage(values, self.probe.of_float[self.metric][: values.shape[1]])

    def _unbroken(self, values: Matrix, part: range) -> Matrix:
        """NaN as the worst value there is, but where the float model has none either.

        There nothing is measured, as the perplexity of a text of one token.
        """
        better = self.probe.metrics[self.metric].higher_is_better
        broken = np.isnan(values) & ~np.isnan(self._of_float(part))
        return np.where(broken, -np.inf if better else np.inf, values)

    def _of_float(self, part: range) -> Matrix:
        """``(S',)`` values of the float model."""
        seen = self.probe.samples_in(part)
        return self.probe.of_float[self.metric][seen.start : seen.stop]

    def _effects(self, values: Matrix, damage: Matrix) -> list[Effect]:
        over_samples = self.probe.metrics[self.metric].over_samples
        known = ~np.isnan(damage)
        sound = np.logical_and(known.any(axis=1), ~np.isinf(damage).any(axis=1))
        means = resampled_means(np.where(sound[:, None], damage, 0.0), seed=self.seed)
        low, high = np.where(sound, np.nanquantile(means, [0.025, 0.975], axis=0), np.nan)
        return [
            Effect(
                value=over_samples(values[index][~np.isnan(values[index])]),
                damage=float(row[known[index]].mean()) if sound[index] else np.nan,
                low=float(low[index]),
                high=float(high[index]),
            )
            for index, row in enumerate(damage)
        ]


def portions(probe: Probe, *, halving: bool) -> list[range]:
    """Batches in the order in which samples are spent: a quarter, as many more, and the rest."""
    batches = probe.batches
    if not halving:
        return [batches]
    per_batch = max(1, len(probe.samples_in(range(1))))
    cuts = {-(-len(probe) // (part * per_batch)) for part in (4, 2)}
    cuts = {cut for cut in cuts if FIRST_SAMPLES <= cut * per_batch < len(probe)}
    ends = [0, *sorted(cuts), len(batches)]
    return [range(start, end) for start, end in pairwise(ends)]


def _assessed(
    record: ModelRecord,
    ranking: Ranking,
    one_in: Sequence[Effect],
    one_out: Sequence[Effect],
    samples: NDArray[np.int64],
    sides: Mapping[Way, Mapping[str, float]],
    sides_samples: int,
) -> Assessed:
    total = sum(layer.macs for layer in record.layers) or 1
    scores = list[GroupScore]()
    for place, index in enumerate(ranking.order):
        group = record.groups[index]
        low, high = ranking.places[index].tolist()
        scores.append(
            GroupScore(
                group=group.name,
                role=group.role,
                mac_fraction=group.macs / total,
                samples=int(samples[index]),
                one_in=one_in[index],
                one_out=one_out[index],
                weights=sides["weights"].get(group.name),
                activations=sides["activations"].get(group.name),
                rank_low=low + 1,
                rank_high=high + 1,
                tied=place < len(ranking.tied) and ranking.tied[place],
            )
        )
    both = np.array([[x.one_in.damage for x in scores], [x.one_out.damage for x in scores]])
    comparable = len(scores) > 1 and bool(np.isfinite(both).all())
    correlation = float(spearman(both[0], both[1])[0]) if comparable else np.nan
    return Assessed(
        scores=tuple(scores),
        sides_samples=sides_samples,
        stability=ranking.stability if np.isfinite(ranking.stability) else None,
        in_out_correlation=correlation if np.isfinite(correlation) else None,
    )
