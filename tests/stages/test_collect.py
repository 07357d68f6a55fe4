"""What was converted on another machine comes back verified, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.receive import read_bounded, received
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.errors import QuantflowError
from quantflow.report.artifacts import read_artifacts
from quantflow.report.export_sheets import conversions_sheet
from quantflow.report.verdict_line import verdict_line
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_5_om import collecting
from tests.ascend import fake_atc

from .conftest import RunStages, write_project

Collect = Callable[..., OmRecord]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and beside it a copy of its 50_om in which everything was converted."""
    root = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(root))
        run_them = write_project(root)
        run_them()
    shutil.copytree(root / "run" / "50_om", root / "there")
    atc = fake_atc.install(root / "bin", "version").parent
    assert fake_atc.run_script(root / "there", atc).returncode == 0
    return root


@pytest.fixture
def there(made: Path, run_stages: RunStages, tmp_path: Path) -> Path:
    """A copy of 50_om on another machine, everything in it converted; the run is copied, too."""
    shutil.copytree(made / "run", tmp_path / "run")
    return Path(shutil.copytree(made / "there", tmp_path / "there"))


@pytest.fixture
def collect(run: RunDirectory, tmp_path: Path) -> Collect:
    def collect_it(directory: Path, *changes: str) -> OmRecord:
        loaded = load_config(tmp_path / "quantflow.toml", changes)
        run_stage(Context(loaded, run, force=True), collecting(directory))
        return OmRecord.read(run.folder("50_om") / "om.json")

    return collect_it


def edit_result(there: Path, name: str, **fields: Any) -> None:
    path = there / "result.json"
    tree = json.loads(path.read_text())
    (row,) = [row for row in tree["conversions"] if row["name"] == name]
    row.update(fields)
    path.write_text(json.dumps(tree))


def test_what_was_made_elsewhere_is_in_force_and_stays(
    there: Path, collect: Collect, run: RunDirectory, run_stages: RunStages
) -> None:
    record = collect(there)
    assert record.status == "converted" and record.findings == record.rejected == ()
    folder = run.folder("50_om")
    for x in record.conversions:
        assert (folder / str(x.om)).read_bytes() == (there / str(x.om)).read_bytes()
        assert (folder / x.log).read_bytes() == (there / x.log).read_bytes()
        assert x.elsewhere is not None and x.atc_version == "[INFO] ATC tool version : 7.7.7"
    manifest = json.loads((folder / "manifest.json").read_text())
    files = [bucket[kind]["file"] for bucket in manifest["buckets"] for kind in ("int8", "fp16")]
    assert files == ["batch1.om", "batch1_fp16.om", "batch4.om", "batch4_fp16.om"]
    text = (folder / "README.txt").read_text()
    assert f"on another machine: {os.uname().nodename}" in text and "run on an NPU" in text
    found = read_artifacts(run)
    assert "converted on another machine: " + os.uname().nodename in verdict_line(found)
    assert found.om is not None and "as its result.json says" in conversions_sheet(found.om).note
    # Nothing changed: nothing is done. With --force and no atc here, it is kept, too.
    (outcome,) = run_stages("50_om")
    assert not outcome.ran
    (outcome,) = run_stages("50_om", force=True)
    assert outcome.ran
    assert OmRecord.read(folder / "om.json") == record
    # Nor does it go where the stage runs again for something that is not in the models.
    run_stages("50_om", change="atc.timeout_s=5")
    assert OmRecord.read(folder / "om.json") == record


def test_a_comparison_made_later_does_not_throw_it_away(
    run_stages: RunStages, run: RunDirectory, collect: Collect, tmp_path: Path
) -> None:
    run_stages("00_model", "10_set", "20_ranges", "40_onnx", "50_om")
    atc = fake_atc.install(tmp_path / "bin", "good").parent
    assert fake_atc.run_script(run.folder("50_om"), atc).returncode == 0
    record = collect(run.folder("50_om"))  # the folder itself, in which convert.py ran
    outcomes = run_stages("45_compare", "50_om")
    assert [x.ran for x in outcomes] == [True, True]
    assert OmRecord.read(run.folder("50_om") / "om.json") == record
    assert (run.folder("50_om") / "batch4.om").is_file()


def test_two_machines_can_share_the_work(
    there: Path, collect: Collect, run: RunDirectory, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(there, tmp_path / "other"))
    for name in ("batch4", "batch4_fp16"):
        edit_result(there, name, status="not-converted", reason="not asked for yet", om=None)
    for name in ("batch1", "batch1_fp16"):
        edit_result(other, name, status="failed", reason="E20001 \x1b[31m no", om=None)
    record = collect(there)
    assert [x.status for x in record.conversions] == ["converted"] * 2 + ["not-converted"] * 2
    assert record.status == "not-converted"
    record = collect(other)
    assert {x.status for x in record.conversions} == {"converted"}


def test_a_failure_elsewhere_is_told_in_its_words(there: Path, collect: Collect) -> None:
    edit_result(there, "batch1", status="failed", reason="E20001 \x1b[31m no", om=None)
    record = collect(there)
    assert record.status == "failed"
    assert record.conversions[0].reason == "E20001 \\x1b[31m no"


def spoil_content(there: Path, tmp_path: Path) -> None:
    with (there / "batch1.om").open("r+b") as file:
        file.seek(300)
        file.write(b"\x55")


def make_link(there: Path, tmp_path: Path) -> None:
    shutil.move(there / "batch1.om", tmp_path / "secret")
    (there / "batch1.om").symlink_to(tmp_path / "secret")


def make_pipe(there: Path, tmp_path: Path) -> None:
    (there / "batch1.om").unlink()
    os.mkfifo(there / "batch1.om")


def make_escape(there: Path, tmp_path: Path) -> None:
    shutil.copy(there / "batch1.om", tmp_path / "outside.om")
    edit_result(there, "batch1", om="../outside.om")


def take_another(there: Path, tmp_path: Path) -> None:
    edit_result(there, "batch1", om="batch4.om")


def remove(there: Path, tmp_path: Path) -> None:
    (there / "batch1.om").unlink()


def claim(content: bytes) -> Callable[[Path, Path], None]:
    """An .om file with a result that fits it: only what it is tells that it is wrong."""

    def spoil(there: Path, tmp_path: Path) -> None:
        import hashlib

        (there / "batch1.om").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        edit_result(there, "batch1", sha256=digest, size=len(content))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (spoil_content, "SHA-256"),
        (make_link, "cannot be taken over"),
        (make_pipe, "plain file"),
        (make_escape, "not what atc calls its file"),
        (take_another, "not what atc calls its file"),
        (remove, "No such file"),
        (claim(fake_atc.om_bytes()[:-10]), "complete"),
        (claim(fake_atc.om_bytes("Ascend910B4")), "Ascend910B4"),
        (claim(b""), "complete"),
    ],
)
def test_an_om_file_that_is_not_what_it_should_be_is_named_and_left(
    spoil: Callable[[Path, Path], None],
    why: str,
    there: Path,
    collect: Collect,
    run: RunDirectory,
    tmp_path: Path,
) -> None:
    spoil(there, tmp_path)
    record = collect(there)
    assert [x.status for x in record.conversions] == ["failed"] + ["converted"] * 3
    assert "QF703" in record.conversions[0].reason and why in record.conversions[0].reason
    (finding,) = record.rejected
    assert finding.level == "error" and "QF703" in finding.what and finding.where == "batch1"
    assert sorted(x.name for x in run.folder("50_om").glob("*.om")) == [
        "batch1_fp16.om", "batch4.om", "batch4_fp16.om",
    ]  # fmt: skip
    assert not list(run.folder("50_om").glob(".batch1*"))


def test_a_result_of_other_models_is_refused_and_nothing_is_lost(
    there: Path, collect: Collect, run: RunDirectory, run_stages: RunStages
) -> None:
    before = (run.folder("50_om") / "om.json").read_bytes()
    with pytest.raises(QuantflowError) as error:
        collect(there, "atc.options.log=debug")
    assert error.value.problems[0].code == "QF412"
    with pytest.raises(QuantflowError) as error:
        collect(there, "target.chip=Ascend310B1")
    assert error.value.problems[0].code in ("QF412", "QF407")
    assert (run.folder("50_om") / "om.json").read_bytes() == before
    edit_result(there, "batch1", digest="0" * 64)
    record = collect(there)
    assert record.status == "not-converted"
    assert [x.status for x in record.conversions] == ["not-converted"] + ["converted"] * 3
    assert "QF412" in record.rejected[0].what and record.rejected[0].where == "batch1"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": 2}', b" " * (17 << 20), None],
)
def test_a_result_that_is_none_is_refused(
    content: bytes | None, there: Path, collect: Collect
) -> None:
    path = there / "result.json"
    if content is None:
        target = path.rename(there / "elsewhere.json")
        path.symlink_to(target)
    else:
        path.write_bytes(content)
    with pytest.raises(QuantflowError) as error:
        collect(there)
    assert error.value.problems[0].code == "QF411"


@pytest.mark.parametrize("size", [-2, True, 1.5, 2**63, "9"])
def test_a_size_that_no_file_has_is_refused(size: Any, there: Path, collect: Collect) -> None:
    edit_result(there, "batch1", size=size)
    with pytest.raises(QuantflowError) as error:
        collect(there)
    assert error.value.problems[0].code == "QF411" and "size" in error.value.problems[0].what


def test_a_conversion_that_is_there_twice_is_refused(there: Path, collect: Collect) -> None:
    path = there / "result.json"
    tree = json.loads(path.read_text())
    tree["conversions"].append({**tree["conversions"][0], "status": "failed"})
    path.write_text(json.dumps(tree))
    with pytest.raises(QuantflowError) as error:
        collect(there)
    assert error.value.problems[0].code == "QF411" and "twice" in error.value.problems[0].what


def test_a_number_is_no_truth_value(there: Path, collect: Collect) -> None:
    path = there / "result.json"
    tree = json.loads(path.read_text())
    for key in ("format", "exit_code"):
        path.write_text(json.dumps(tree | {key: True}))
        with pytest.raises(QuantflowError) as error:
            collect(there)
        assert error.value.problems[0].code == "QF411"


def test_no_negative_number_of_bytes_is_received(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with (
        pytest.raises(OSError, match="negative"),
        received(tmp_path, "x", tmp_path / "y", -1),
    ):
        pass
    with pytest.raises(OSError, match="negative"):
        read_bounded(tmp_path, "x", -1)
    assert not (tmp_path / "y").exists()


def test_names_that_are_not_of_this_run_are_ignored(there: Path, collect: Collect) -> None:
    path = there / "result.json"
    tree = json.loads(path.read_text())
    tree["conversions"].append({**tree["conversions"][0], "name": "../../etc/passwd"})
    path.write_text(json.dumps(tree))
    assert collect(there).status == "converted"


@pytest.mark.parametrize("changed", [False, True])
def test_a_failed_new_try_does_not_cost_the_former_file(
    changed: bool, there: Path, run: RunDirectory, run_stages: RunStages, tmp_path: Path
) -> None:
    fake_atc.install(tmp_path, "good")
    run_stages("50_om")
    folder = run.folder("50_om")
    before = {x.name: x.read_bytes() for x in folder.glob("*.om")}
    assert len(before) == 4
    fake_atc.install(tmp_path, "refused")
    run_stages("50_om", force=True, change="atc.options.log=debug" if changed else "")
    record = OmRecord.read(folder / "om.json")
    if changed:  # they are of other arguments
        assert record.status == "failed" and not list(folder.glob("*.om"))
        return
    assert record.status == "converted"
    assert {x.name: x.read_bytes() for x in folder.glob("*.om")} == before
    for x in record.conversions:
        assert "the new try failed" in x.reason and "E10001" in x.reason
        assert f"log: 50_om/logs/{x.name}.failed.log" in x.reason
        assert "E10001" in (folder / "logs" / f"{x.name}.failed.log").read_text()
        assert "ATC run success" in (folder / x.log).read_text()


def test_with_an_atc_here_only_force_converts_again(
    there: Path, collect: Collect, run: RunDirectory, run_stages: RunStages, tmp_path: Path
) -> None:
    collect(there)
    fake_atc.install(tmp_path, "good")  # on the PATH of these stages
    (outcome,) = run_stages("50_om")
    assert outcome.ran  # which atc there is counts, but the files are kept
    record = OmRecord.read(run.folder("50_om") / "om.json")
    assert all(x.elsewhere for x in record.conversions)
    run_stages("50_om", force=True)
    record = OmRecord.read(run.folder("50_om") / "om.json")
    assert record.status == "converted" and record.elsewhere == ()
