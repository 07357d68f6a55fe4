"""The sets of a run, drawn, judged and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SetRecord, write_set
from quantflow.calibration.deployment import check_features, profile_of, read_profile
from quantflow.calibration.draw import Batch, Drawn, Pool, draw, in_order, shuffled
from quantflow.calibration.features.extract import Extractor
from quantflow.calibration.features.measure import Measurer, extractor_of
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.features.table_file import save_table
from quantflow.calibration.gate import choose
from quantflow.calibration.hygiene.findings import hygiene_report
from quantflow.calibration.hygiene.fingerprints import Fingerprints, fingerprints, join
from quantflow.calibration.hygiene.grouped_sets import Seen
from quantflow.calibration.plans import (
    STREAMS,
    SetPlan,
    check_counts,
    plans_of,
    sources_of,
    stand_in,
)
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor
from quantflow.calibration.profile.profile import Profile
from quantflow.calibration.profile.profile_file import save_profile
from quantflow.calibration.shortlist import shortlist
from quantflow.calibration.sources import describe, read_records, source_digest
from quantflow.config import Config, SourceConfig, resolve_path
from quantflow.progress import Progress, no_progress


def build_sets(
    config: Config,
    base: Path,
    inputs: Sequence[TensorInfo],
    out_dir: Path,
    progress: Progress = no_progress,
    limit: int | None = None,
    model: ModelFeatures | None = None,
    model_digest: str = "",
) -> dict[str, SetRecord]:
    """Draw the sets and write each to a folder of its name in `out_dir`, and ``drift.json``.

    `evaluation` is drawn first, then `heldout`, then the candidates of `calibration`, then
    `deployment`, each without the content of those before (but deployment may have samples that
    candidates of another source have, too): so the samples that accuracy is measured on stay the
    same when the candidates change. `task`, or
    `queries` and `documents`, where the task has records of its own, hold all of them in order.

    Args:
        config: the sections `set`, `task` and `run.seed` count.
        base: directory that relative paths and modules start from.
        inputs: the model's inputs, with the batch axis.
        out_dir: receives ``evaluation/``, ``heldout/``, ``calibration/``, ``deployment/``,
            the task's sets, ``drift.json`` and, where anything is known of production,
            ``profile.safetensors``.
        progress: called after some samples.
        limit: most samples of a set; a task stays whole, since its scores are for all records.
        model: what the model makes of samples, for the drift report; None to do without.
        model_digest: of the model's file.

    Returns:
        What was written, by name of the set.

    Raises:
        QuantflowError: QF104, QF105, QF301 to QF308, QF313 and QF314; too few records are an error,
            never a smaller set, but for `deployment`, of which the drift report says what is
            missing.
    """
    preprocess = make_preprocessor(config.set.preprocess, inputs, base)
    sources, plans = sources_of(config.set), plans_of(config.set, limit)
    pools = {name: _pool(name, source, config, base) for name, source in sources.items()}
    check_counts(pools, plans)
    extract = extractor_of(config.set.preprocess, inputs, base)
    same = _same_source_notes(sources, base)
    drawn, tables, prints = _draw(
        pools, plans, preprocess, extract, progress, apart=any("candidates" in x for x in same)
    )
    size = next(plan.least for plan in plans if plan.name == "calibration")
    gate = _Gate(config, base, Measurer(extract, model, model_digest), out_dir, progress)
    candidates = drawn["calibration"]
    drawn["calibration"], usual = gate.calibration(drawn, tables, size)
    prints["candidates"] = prints.pop("calibration")
    prints["calibration"] = prints["candidates"].take(_places(drawn["calibration"], candidates))
    _hygiene(prints, drawn, candidates, usual).write(out_dir / "hygiene.json")
    notes = (*preprocess.notes, *same)
    records: dict[str, SetRecord] = {}
    for plan in plans:
        origin = f"{plan.source}: {describe(sources[plan.source])}, seed {config.run.seed}"
        set_notes = (*stand_in(plan), *notes)
        records[plan.name] = _record(plan.name, origin, drawn[plan.name], inputs, set_notes)
        write_set(out_dir / plan.name, records[plan.name], drawn[plan.name].samples)
    for key, source in config.task_sources.items():
        name = task_set_name(key)
        records[name], drawn_all = _task_set(name, source, config, base, preprocess, progress)
        write_set(out_dir / name, records[name], drawn_all.samples)
    return records


def task_set_name(key: str) -> str:
    """Folder of the set that one of `Config.task_sources` gives."""
    return key.removeprefix("task.").replace("source", "task")


def _draw(
    pools: Mapping[str, Pool],
    plans: list[SetPlan],
    preprocess: Preprocessor,
    extract: Extractor,
    progress: Progress,
    *,
    apart: bool,
) -> tuple[dict[str, Drawn], dict[str, FeatureTable], dict[str, Fingerprints]]:
    """The samples of every plan, features of those that are compared, and fingerprints.

    A plan that comes to nothing is taken off the list.

    Args:
        pools: of the sources, by name.
        plans: in the order of drawing.
        preprocess: from record to sample.
        extract: measures samples.
        progress: called after some samples.
        apart: whether deployment is without what candidates hold, since both are the same data. A
            pool that happens to hold production samples is no reason to leave these out.
    """
    drawn, tables = dict[str, Drawn](), dict[str, FeatureTable]()
    prints = dict[str, Fingerprints]()
    taken: set[str] = set()
    for plan in tuple(plans):
        look = _Look(extract, compared=plan.name in ("calibration", "deployment"))
        drawn[plan.name] = draw(
            pools[plan.source],
            plan.count,
            preprocess,
            least=plan.least,
            taken=taken,
            observe=look,
            keep=plan.name != "calibration",
            leave_unfit=look.compared,
            tick=_ticker(progress, plan.name, plan.count),
        )
        if plan.name != "calibration" or apart:
            taken |= drawn[plan.name].digests
        if look.prints:
            prints[plan.name] = join(look.prints)
        if look.tables:
            tables[plan.name] = concatenate(look.tables)
        if not drawn[plan.name]:
            plans.remove(plan)
    prints.pop("heldout", None)  # drawn with the deployment sample, which is looked at
    return drawn, tables, prints


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at samples as they are drawn."""

    extract: Extractor
    compared: bool
    tables: list[FeatureTable] = field(default_factory=list[FeatureTable])
    prints: list[Fingerprints] = field(default_factory=list[Fingerprints])

    def __call__(self, batch: Batch) -> None:
        self.prints.append(fingerprints(batch.infos, batch.samples, self.extract.inputs))
        if self.compared:
            self.tables.append(self.extract(batch))


def _places(chosen: Drawn, candidates: Drawn) -> list[int]:
    """Positions of the chosen among the candidates."""
    place_of = {info.id: place for place, info in enumerate(candidates.infos)}
    return [place_of[info.id] for info in chosen.infos]


def _hygiene(
    prints: Mapping[str, Fingerprints], drawn: Mapping[str, Drawn], candidates: Drawn, usual: float
) -> HygieneReport:
    """What is wrong with samples by themselves.

    Args:
        prints: of the candidates and of all sets.
        drawn: the sets.
        candidates: as they were drawn.
        usual: share of effective samples in deployment.
    """
    held = drawn["evaluation"].digests
    passed = tuple(info.id for info in candidates.passed if info.digest in held)
    seen = {name: Seen(found) for name, found in prints.items()}
    seen["candidates"] = Seen(prints["candidates"], candidates.unfit, passed)
    if "deployment" in prints:
        seen["deployment"] = Seen(prints["deployment"], drawn["deployment"].unfit)
    return hygiene_report(seen, usual)


@dataclass(frozen=True, slots=True)
class _Gate:
    """Chooses the calibration set and judges it, with the configuration of a run."""

    config: Config
    base: Path
    measure: Measurer
    out_dir: Path
    progress: Progress

    def calibration(
        self, drawn: Mapping[str, Drawn], tables: Mapping[str, FeatureTable], count: int
    ) -> tuple[Drawn, float]:
        """The `count` candidates that are calibrated with, and deployment's effective share.

        The report goes to `drift.json`, what is known of production to `profile.safetensors`, the
        set's own features to `features.safetensors`.
        """
        candidates, table = drawn["calibration"], tables["calibration"]
        profile, deployment = self._deployment(drawn.get("deployment"), tables)
        places = pool = list(range(count))
        if self.config.set.selection == "match" and profile is not None:
            pool = shortlist(table, profile, count)
            places = sorted({*range(count), *pool})
        some = candidates.take(places)
        # With nothing to compare, there is no need to run the model.
        measure = self.measure if profile and profile.model else Measurer(self.measure.extract)
        measured = measure(table.take(places), some.samples, "candidates", self.progress).table
        if profile is not None:
            check_features(profile, measured, self.config.set.profile or "set.deployment")
            save_profile(self.out_dir / "profile.safetensors", profile)
        place_of = {place: index for index, place in enumerate(places)}
        overlap = sum(info.digest in drawn["evaluation"].digests for info in candidates.passed)
        choice = choose(
            measured,
            profile,
            count,
            selection=self.config.set.selection,
            seed=self.config.run.seed,
            pool=[place_of[place] for place in pool],
            looked_at=len(candidates),
            deployment=deployment,
            evaluation_overlap=overlap,
        )
        choice.report.write(self.out_dir / "drift.json")
        save_table(self.out_dir / "features.safetensors", measured.take(choice.rows))
        usual = profile.effective / profile.samples if profile is not None else 1.0
        return some.take(choice.rows), usual

    def _deployment(
        self, drawn: Drawn | None, tables: Mapping[str, FeatureTable]
    ) -> tuple[Profile | None, FeatureTable | None]:
        """The profile, and the samples' features where these are there."""
        if self.config.set.profile is not None:
            path = resolve_path(self.config.set.profile, self.base)
            return read_profile(path, self.measure.digest), None
        if not drawn or self.config.set.deployment is None:
            return None, None
        table = tables["deployment"].narrowed(tables["calibration"])
        measured = self.measure(table, drawn.samples, "deployment", self.progress)
        source = f"{describe(self.config.set.deployment)}, seed {self.config.run.seed}"
        return profile_of(measured, self.measure.digest, source), measured.table


def _pool(name: str, source: SourceConfig, config: Config, base: Path) -> Pool:
    records = read_records(source, base, config.set.preprocess.column)
    order = shuffled(len(records), seed=config.run.seed, stream=STREAMS[name])
    return Pool(name, records, order, config.set.preprocess.column)


def _same_source_notes(sources: Mapping[str, SourceConfig], base: Path) -> tuple[str, ...]:
    digests = {name: source_digest(source, base) for name, source in sources.items()}
    return tuple(
        f"set.{a} and set.{b} are the same data; the samples drawn do not overlap."
        for a, b in combinations(digests, 2)
        if digests[a] == digests[b]
    )


def _task_set(
    name: str,
    source: SourceConfig,
    config: Config,
    base: Path,
    preprocess: Preprocessor,
    progress: Progress,
) -> tuple[SetRecord, Drawn]:
    records = read_records(source, base, config.set.preprocess.column)
    count = len(records)
    pool = Pool(name, records, in_order(count), config.set.preprocess.column)
    drawn = draw(pool, count, preprocess, tick=_ticker(progress, name, count))
    origin = f"{name}: {describe(source)}, all records"
    return _record(name, origin, drawn, preprocess.inputs, preprocess.notes), drawn


def _record(
    name: str, origin: str, drawn: Drawn, inputs: Sequence[TensorInfo], notes: tuple[str, ...]
) -> SetRecord:
    return SetRecord(
        name=name,
        source=origin,
        inputs={tensor.name: tensor.dtype for tensor in inputs},
        samples=drawn.infos,
        padding_fraction=_padding_fraction(drawn, inputs),
        duplicates=len(drawn.infos) - len(drawn.digests),
        overlap=len(drawn.passed),
        notes=notes,
    )


def _padding_fraction(drawn: Drawn, inputs: Sequence[TensorInfo]) -> float | None:
    """Share of positions where the mask is 0, over all samples."""
    mask = next((tensor.name for tensor in inputs if tensor.mask), None)
    if mask is None:
        return None
    kept = sum(int(np.count_nonzero(sample[mask])) for sample in drawn.samples)
    return 1 - kept / sum(sample[mask].size for sample in drawn.samples)


def _ticker(progress: Progress, name: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(f"{name} samples", done, total)
