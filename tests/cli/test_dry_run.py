from dataclasses import replace
from pathlib import Path

from quantflow import __version__
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.cli.dry_run import forecast
from quantflow.config import check_config
from quantflow.stages.stage import Context, Stage

TREE = {"model": {"onnx": "m"}, "set": {"candidates": {"kind": "function", "function": "a:b"}}}


def stage(folder: str, reads: tuple[str, ...], **inputs: str) -> Stage:
    return Stage(
        folder=folder,
        title=folder,
        command=f"make {folder}",
        reads=reads,
        inputs=lambda _: inputs,
        work=lambda *_: None,
    )


def context(tmp_path: Path) -> Context:
    (tmp_path / "m").touch()
    return Context(check_config(TREE, base=tmp_path), RunDirectory(tmp_path / "run"))


STAGES = (stage("a", (), seed="1"), stage("b", ("a",), seed="1"), stage("c", ("b",), seed="1"))
FOLDERS = ["a", "b", "c"]


def finish(where: Context, *stages: Stage) -> None:
    for entry in stages:
        with where.run.writing(entry.folder, __version__, entry.inputs(where)) as folder:
            (folder / "result").write_text("x")


def states(where: Context, chosen: list[str]) -> dict[str, tuple[str, str]]:
    return {x.stage: (x.state, x.why) for x in forecast(where, STAGES, chosen=chosen)}


def test_what_has_not_run_would_run(tmp_path: Path) -> None:
    where = context(tmp_path)
    assert set(states(where, FOLDERS).values()) == {("would run", "has not run")}
    assert not where.run.root.exists()


def test_what_is_current_stays(tmp_path: Path) -> None:
    where = context(tmp_path)
    finish(where, *STAGES)
    assert set(states(where, FOLDERS).values()) == {("current", "")}


def test_a_changed_input_is_named_and_what_follows_may_run(tmp_path: Path) -> None:
    where = context(tmp_path)
    finish(where, stage("a", (), seed="2"), *STAGES[1:])
    found = states(where, FOLDERS)
    assert found["a"] == ("would run", "changed: seed")
    assert found["b"] == ("may run", "if the result of a changes")
    assert found["c"][0] == "may run"


def test_one_stage_alone_shows_what_it_needs_first(tmp_path: Path) -> None:
    where = context(tmp_path)
    finish(where, stage("a", (), seed="2"), *STAGES[1:])
    assert states(where, ["b"])["a"] == ("needed first", "changed: seed: make a")
    assert list(states(where, ["b"])) == ["a", "b"]


def test_an_edited_plan_that_would_be_replaced_is_named(tmp_path: Path) -> None:
    where, sweep = context(tmp_path), stage("30_sweep", ())
    plan = where.run.folder("30_sweep") / "plan.json"
    with where.run.writing("30_sweep", __version__, {"seed": "2"}) as folder:
        (folder / "plan.json").write_text("{}")
    (found,) = forecast(where, [sweep], chosen=["30_sweep"])
    assert found.why == "changed: seed"
    plan.write_text("{ }")
    (found,) = forecast(where, [sweep], chosen=["30_sweep"])
    assert "30_sweep/plan.json, which was edited" in found.why
    assert "30_sweep.edited-plan.json" in found.why
    assert (
        plan.read_text() == "{ }" and not (tmp_path / "run" / "30_sweep.edited-plan.json").exists()
    )


def test_a_damaged_file_and_force_are_reasons(tmp_path: Path) -> None:
    where = context(tmp_path)
    finish(where, *STAGES)
    assert states(replace(where, force=True), ["c"])["c"] == ("would run", "--force")
    (where.run.folder("c") / "result").write_text("y")
    assert states(where, FOLDERS)["c"] == ("would run", "a file is not what the stage wrote")
