"""The optimization between ranges and sweep: what it changes, what reads it, kills and reruns."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.errors import QuantflowError
from quantflow.export.int8_weights import load_int8_weights
from quantflow.recovery import rebuild, smooth_model
from quantflow.stages import work_3_sweep, work_25_optimize
from quantflow.stages.pipeline import STAGES
from tests.graph.models import build, rand
from tests.quantized.qdq_models import SCHEMES, normal, quantized, write_mlp
from tests.sensitivity.projects import context_of, run_one, run_until, write_project

FOLDER = "25_optimize"
ALL = ["smoothing", "rounding", "bias correction"]
OFF = (
    "optimize.shift=false", "optimize.smoothing=false", "optimize.rounding=false",
    "optimize.bias_correction=false",
)  # fmt: skip
PLAIN = 'plan.policy="none"'


def outlier_model() -> onnx.ModelProto:
    """Three layers; the second one reads a channel that is much larger than the rest."""
    w0, w1 = rand(8, 12), rand(12, 8, seed=1)
    w0[:, 3] *= 60
    w1[3] *= 0.02
    return build(
        "(float[batch,8] x) => (float[batch,6] y) { a = Gemm(x, w0, b0) r = Relu(a) "
        "m = MatMul(r, w1) c = Add(m, b1) t = Relu(c) y = MatMul(t, w2) }",
        {"w0": w0, "b0": rand(12, seed=2), "w1": w1, "b1": rand(8, seed=3), "w2": rand(8, 6)},
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project up to stage 2."""
    folder = tmp_path_factory.mktemp("outlier")
    run_until("20_ranges", new_project(folder))
    return folder


@pytest.fixture(scope="module")
def optimized(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the optimization; nothing may change it."""
    folder = tmp_path_factory.mktemp("optimized") / "project"
    shutil.copytree(base, folder)
    assert run_one(FOLDER, folder / "quantflow.toml").ran
    return folder


@pytest.fixture
def project(base: Path, tmp_path: Path) -> Path:
    """A configuration of one's own up to stage 2."""
    return copied(base, tmp_path)


@pytest.fixture
def finished(optimized: Path, tmp_path: Path) -> Path:
    """The same with the optimization."""
    return copied(optimized, tmp_path)


def new_project(folder: Path) -> Path:
    return write_project(folder, outlier_model(), {"x": rand(40, 8, seed=9)}, {"batch": 4})


def copied(folder: Path, to: Path) -> Path:
    place = to / folder.parent.name / folder.name
    shutil.copytree(folder, place)
    return place / "quantflow.toml"


def run_of(config: Path) -> Path:
    return config.parent / "run"


def files(folder: Path) -> dict[str, bytes]:
    """What a stage has written, but for the list of what it was made from."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "stage.json"
    }


def record_of(config: Path) -> OptimizeRecord:
    return OptimizeRecord.read(run_of(config) / FOLDER / "optimize.json")


def export(config: Path, *overrides: str) -> dict[str, bytes]:
    run_one("40_onnx", config, *overrides)
    return files(run_of(config) / "40_onnx")


def outputs(model: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


# --- what it does ------------------------------------------------------------------------------


def test_every_pass_is_measured_and_kept_where_it_lowers_the_error(optimized: Path) -> None:
    record = record_of(optimized / "quantflow.toml")
    assert [entry.name for entry in record.passes] == ALL
    error = record.passes[0].error_before
    for entry in record.passes:
        assert entry.error_before == error
        assert entry.kept == (entry.error_after < entry.error_before)
        error = entry.error_after if entry.kept else error
    assert record.passes[0].kept and error < 0.5 * record.passes[0].error_before
    assert record.metric == "cosine" and record.samples == 10
    assert [x.tensor for x in record.tensors if x.error_after < 0.5 * x.error_before] == ["r"]
    assert {x.how for x in record.tensors} == {"folded"} and record.multiplied_elements == 0


def test_a_pass_that_flatters_only_its_own_samples_is_dropped(tmp_path: Path) -> None:
    """Independent rows without outliers: what reaches the range on few is left by all others."""
    model = build(
        "(float[batch,96] x) => (float[batch,16] y) "
        "{ a = MatMul(x, w0) c = Add(a, b0) r = Relu(c) y = MatMul(r, w1) }",
        {"w0": rand(96, 128), "b0": rand(128, seed=1), "w1": rand(128, 16, seed=2)},
    )
    config = write_project(tmp_path, model, {"x": rand(120, 96, seed=3)}, {"batch": 4})
    overrides = ("set.samples=16", "set.heldout_samples=64", "optimize.rounding=false")
    run_until("20_ranges", config, *overrides)
    run_one(FOLDER, config, *overrides)
    smoothing = record_of(config).passes[0]
    assert smoothing.name == "smoothing" and not smoothing.kept


def test_the_float_model_computes_what_it_did(optimized: Path) -> None:
    feeds = {"x": rand(16, 8, seed=77)}
    model = optimized / "run" / FOLDER / "model.onnx"
    before, after = outputs(optimized / "run/00_model/model.onnx", feeds), outputs(model, feeds)
    difference = np.abs(before["y"] - after["y"]).max() / np.abs(before["y"]).max()
    assert difference < 1e-5
    assert record_of(optimized / "quantflow.toml").float_difference < 1e-5
    # It is the outlier that is gone.
    ranges = RangesRecord.read(optimized / "run/20_ranges/ranges.json").ranges
    found = RangesRecord.read(optimized / "run" / FOLDER / "ranges.json").ranges
    assert [x.tensor for x in found] == [x.tensor for x in ranges]
    (old,), (new,) = ([x for x in some if x.tensor == "r"] for some in (ranges, found))
    assert new.high < 0.5 * old.high


def test_export_holds_the_integers_that_were_chosen(finished: Path) -> None:
    export(finished, PLAIN)
    folder = run_of(finished) / "40_onnx"
    weights = load_int8_weights(run_of(finished) / FOLDER / "weights.safetensors")
    assert weights
    graph = onnx.load(folder / "deploy_batch4.onnx").graph
    constants = {x.name: onnx.numpy_helper.to_array(x) for x in graph.initializer}
    held = {x.name: constants[x.input[1]] for x in graph.node if x.name in weights}
    assert set(held) == set(weights)
    for name, entry in weights.items():
        assert held[name].dtype == np.int8 and np.array_equal(held[name], entry.weight)
    entries = {x.layer: x for x in ExportRecord.read(folder / "export.json").layers}
    for name, entry in weights.items():
        assert np.array_equal(np.float32(entries[name].scale_w), entry.scales)
    ranges = RangesRecord.read(run_of(finished) / FOLDER / "ranges.json").ranges
    assert entries["n_m"].scale_d == next(x for x in ranges if x.tensor == "r").params.scale
    assert ParityReport.read(folder / "parity.json").verdict == "pass"
    feeds = {"x": rand(4, 8, seed=5)}
    exact = outputs(run_of(finished) / "00_model/model.onnx", feeds)["y"]
    twin = outputs(folder / "float_batch4.onnx", feeds)["y"]
    assert np.abs(exact - twin).max() < 1e-5 * np.abs(exact).max()


def test_int8_with_it_is_nearer_to_the_float_model(project: Path, finished: Path) -> None:
    export(project, PLAIN)
    export(finished, PLAIN)
    losses = list[float]()
    for config in (project, finished):
        total = 0.0
        for seed in range(10):  # samples that none of the stages has seen
            feeds = {"x": rand(4, 8, seed=1000 + seed)}
            exact = outputs(run_of(config) / "00_model/model.onnx", feeds)["y"]
            found = outputs(run_of(config) / "40_onnx/qdq_batch4.onnx", feeds)["y"]
            total += float(((exact - found) ** 2).sum() / (exact**2).sum())
        losses.append(total)
    assert losses[1] < 0.8 * losses[0]


def test_the_sweep_reads_model_ranges_and_weights(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Counter[str]()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *others: Any, **more: Any) -> Any:
            read[f"{path.parent.name}/{path.name}"] += 1
            return function(path, *others, **more)

        return call

    for name in ("load_model", "load_int8_weights"):
        monkeypatch.setattr(work_3_sweep, name, watched(getattr(work_3_sweep, name)))
    run_one("30_sweep", finished)
    assert read[f"{FOLDER}/model.onnx"] and read[f"{FOLDER}/weights.safetensors"]
    assert "00_model/model.onnx" not in read
    manifest = RunDirectory(run_of(finished)).manifest("30_sweep")
    assert manifest is not None and manifest.inputs[FOLDER]


# --- switched off, and not there ----------------------------------------------------------------


def test_with_every_pass_off_nothing_is_different(project: Path, tmp_path: Path) -> None:
    without = export(project, PLAIN, *OFF)
    other = copied(project.parent, tmp_path / "other")
    shutil.rmtree(run_of(other) / "40_onnx")
    run_one(FOLDER, other, *OFF)
    assert set(files(run_of(other) / FOLDER)) == {"optimize.json"}
    assert record_of(other).passes == ()
    assert export(other, PLAIN, *OFF) == without


@pytest.mark.parametrize("on", ALL)
def test_a_pass_alone_leaves_the_others_out(project: Path, on: str) -> None:
    key = f"optimize.{on.replace(' ', '_')}=false"
    run_one(FOLDER, project, *(x for x in OFF if x != key))
    record = record_of(project)
    assert [entry.name for entry in record.passes] == [on]
    folder = run_of(project) / FOLDER
    assert bool(record.tensors) == (on == "smoothing")
    weights = load_int8_weights(folder / "weights.safetensors")
    if on == "smoothing":
        assert not weights and not record.layers and (folder / "model.onnx").exists()
    elif record.passes[0].kept:
        layers = {x.layer for x in record.layers}
        assert set(weights) == (layers - {"n_y"} if on == "bias correction" else layers)
        assert (folder / "ranges.json").read_bytes() == (
            run_of(project) / "20_ranges/ranges.json"
        ).read_bytes()


def test_a_model_that_came_quantized_is_left_alone(tmp_path: Path) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    np.savez(tmp_path / "candidates.npz", x=normal(40, 16, seed=8))
    config = tmp_path / "quantflow.toml"
    config.write_text(
        f'[model]\nonnx = "{path.name}"\n[set]\nsamples = 12\nheldout_samples = 10\n'
        'evaluation_samples = 6\n[set.candidates]\nkind = "npz"\npath = "candidates.npz"\n'
        "[target]\nbuckets = [{ batch = 4 }]\n[run]\ndirectory = 'run'\n"
    )
    run_until(FOLDER, config)
    assert set(files(run_of(config) / FOLDER)) == {"optimize.json"}
    record = record_of(config)
    assert record.passes == record.tensors == record.layers == () and "quantized" in record.notes[0]
    context = context_of(config)
    assert context.quantized_ranges == context.folder("20_ranges")


# --- reruns --------------------------------------------------------------------------------------


def test_a_rerun_has_nothing_to_do(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: Any) -> None:
        raise AssertionError("it works again")

    monkeypatch.setattr(work_25_optimize, "work", work)
    before = files(run_of(finished) / FOLDER)
    outcome = run_one(FOLDER, finished)
    assert not outcome.ran and outcome.seconds < 2
    assert files(run_of(finished) / FOLDER) == before
    for change in ("optimize.multiply=false", 'plan.metric="sqnr"', "optimize.rounding=false"):
        with pytest.raises(AssertionError, match="again"):
            run_one(FOLDER, finished, change)


def test_two_runs_are_the_same_bytes(optimized: Path, tmp_path: Path) -> None:
    config = new_project(tmp_path / "another place")
    run_until(FOLDER, config)
    assert files(run_of(config) / FOLDER) == files(optimized / "run" / FOLDER)
    outcome = run_one(FOLDER, config, force=True)
    assert outcome.ran and files(run_of(config) / FOLDER) == files(optimized / "run" / FOLDER)


class Killed(BaseException):
    """What no one catches."""


@pytest.mark.parametrize("measured", [0, 1, 2, 3])
def test_a_kill_costs_no_search_and_changes_nothing(
    project: Path, optimized: Path, measured: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()
    measure = work_25_optimize._Job._measure  # pyright: ignore[reportPrivateUsage]

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*args, **more)

        return call

    def until_killed(*args: Any) -> float:
        if calls["measure"] == measured:
            raise Killed
        calls["measure"] += 1
        return measure(*args)

    monkeypatch.setattr(smooth_model, "smooth", counted("smooth", smooth_model.smooth))
    monkeypatch.setattr(rebuild, "round_weight", counted("round", rebuild.round_weight))
    monkeypatch.setattr(work_25_optimize._Job, "_measure", until_killed)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(Killed):
        run_one(FOLDER, project)
    assert not (run_of(project) / FOLDER).exists()
    first = Counter(calls)
    calls.clear()
    monkeypatch.setattr(work_25_optimize._Job, "_measure", counted("measure", measure))  # pyright: ignore[reportPrivateUsage]
    assert run_one(FOLDER, project).ran
    assert files(run_of(project) / FOLDER) == files(optimized / "run" / FOLDER)
    assert first["measure"] == measured and calls["measure"] == 4 - measured
    if measured:  # all that was searched before the first measurement with it
        assert first["smooth"] == first["round"] == 3
        assert calls["smooth"] == calls["round"] == 0
    else:
        assert calls["smooth"] == calls["round"] == 3


def test_what_was_noted_for_other_settings_is_not_used(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> float:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(smooth_model, "MIN_GAIN", 2.0)  # nothing is smoothed
        patch.setattr(work_25_optimize._Job, "_measure", killed)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Killed):
            run_one(FOLDER, project, "quantization.symmetric=false")
    asked = ("quantization.symmetric=true",)
    run_one("20_ranges", project, *asked)
    run_one(FOLDER, project, *asked)
    again = files(run_of(project) / FOLDER)
    run_one(FOLDER, project, *asked, force=True)
    assert files(run_of(project) / FOLDER) == again


# --- what is stale -------------------------------------------------------------------------------


def stale(folder: str, config: Path, *overrides: str) -> str:
    with pytest.raises(QuantflowError) as caught:
        run_one(folder, config, *overrides)
    (problem,) = caught.value.problems
    assert problem.code == "QF407"
    return f"{problem.what} {problem.fix}"


@pytest.mark.parametrize("folder", ["30_sweep", "40_onnx"])
def test_other_ranges_make_it_stale_for_what_follows(finished: Path, folder: str) -> None:
    change = "quantization.symmetric=true"
    run_one("20_ranges", finished, change)
    said = stale(folder, finished, change, PLAIN)
    assert FOLDER in said and "20_ranges" in said and "quantflow optimize" in said
    run_one(FOLDER, finished, change)
    assert run_one(folder, finished, change, PLAIN).ran


def test_other_passes_make_it_stale_for_what_follows(finished: Path) -> None:
    said = stale("40_onnx", finished, PLAIN, "optimize.rounding=false")
    assert FOLDER in said and "optimize changed" in said


def test_a_damaged_weight_file_is_no_result(finished: Path) -> None:
    path = run_of(finished) / FOLDER / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(QuantflowError, match="QF405"):
        run_one("40_onnx", finished, PLAIN)


def test_the_stage_is_between_ranges_and_sweep() -> None:
    folders = [stage.folder for stage in STAGES]
    assert folders.index("20_ranges") < folders.index(FOLDER) < folders.index("30_sweep")
