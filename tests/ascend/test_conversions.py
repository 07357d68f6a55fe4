"""What is converted beside INT8, several at once, and what failures say."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

from quantflow.artifacts.om_manifest import OmManifest
from quantflow.artifacts.om_record import OmRecord
from quantflow.ascend.at_once import at_once
from quantflow.ascend.convert import convert, problems

from . import fake_atc
from .conftest import Configure, Export


def convert_with(mode: str, export: Export, configure: Configure, **atc: Any) -> OmRecord:
    executable = fake_atc.install(export.out.parent / "bin", mode)
    loaded = configure(executable=str(executable), **atc)
    return convert(loaded, export.record, export.directory, export.out)


def test_an_fp16_model_that_fails_is_told_and_does_not_count(
    export: Export, configure: Configure
) -> None:
    record = convert_with("fp16-fails", export, configure)
    assert [(x.kind, x.status) for x in record.conversions] == [
        ("int8", "converted"), ("fp16", "failed"), ("int8", "converted"), ("fp16", "failed"),
    ]  # fmt: skip
    assert record.status == "converted" and problems(record) == []
    assert "E10001" in record.conversions[1].reason


def test_one_that_fails_does_not_stop_the_others(export: Export, configure: Configure) -> None:
    record = convert_with("one-fails", export, configure, parallel=2)
    assert [x.status for x in record.conversions] == ["failed"] + ["converted"] * 3
    assert record.status == "failed"
    assert [problem.code for problem in problems(record)] == ["QF701"]


def test_the_baseline_can_be_left_out(export: Export, configure: Configure) -> None:
    record = convert_with("good", export, configure, baseline=False)
    assert [x.name for x in record.conversions] == ["batch1", "batch8"]
    assert not list(export.out.glob("float*"))


def test_probes_are_converted_after_the_models_without_the_options_of_these(
    export: Export, configure: Configure
) -> None:
    options = {"out_nodes": "norm:0", "log": "error"}
    record = convert_with("good", export, configure, baseline=False, probes=True, options=options)
    kinds = [x.kind for x in record.conversions]
    assert kinds == ["int8", "int8", *["probe"] * 5] and record.status == "converted"
    for probe in record.conversions[2:]:
        words = dict(word.split("=", 1) for word in probe.command[1:])
        assert words.keys() == {
            "--framework", "--model", "--output", "--soc_version", "--input_shape",
            "--precision_mode",
        }  # fmt: skip
        model = onnx.load(export.out / words["--model"])
        (x,) = model.graph.input
        shape = ",".join(str(dim.dim_value) for dim in x.type.tensor_type.shape.dim)
        assert words["--input_shape"] == f"{x.name}:{shape}"
        assert (export.out / f"{probe.name}.om").is_file()
    assert "--out_nodes=norm:0" in record.conversions[0].command
    tree = json.loads((export.out / "manifest.json").read_text())
    assert "probe" not in json.dumps(tree)


def test_probes_that_fail_do_not_count(export: Export, configure: Configure) -> None:
    record = convert_with("refused", export, configure, probes=True)
    assert record.status == "failed" and len(problems(record)) == 2
    float_only = export.record.buckets[0].model_copy(update={"op_types": {"Softmax": 1}})
    no_int8 = export.record.model_copy(update={"buckets": (float_only,)})
    loaded = configure(executable="no-such-atc", probes=True)
    found = convert(loaded, no_int8, export.directory, export.out)
    assert {x.kind for x in found.conversions} == {"int8", "fp16"}  # no scale, no question


@pytest.mark.parametrize("parallel", [2, 4])
def test_several_run_at_once(
    parallel: int, export: Export, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each stand-in waits for as many as may run at once; one by one they would wait in vain.
    monkeypatch.setenv("MEET", str(parallel))
    seen: list[tuple[str, int, int]] = []
    executable = fake_atc.install(export.out.parent / "bin", "meets")
    loaded = configure(executable=str(executable), parallel=parallel)
    record = convert(
        loaded, export.record, export.directory, export.out, lambda *told: seen.append(told)
    )
    assert record.status == "converted"
    first = int((export.out / "logs" / "batch1.log").read_text().split("met ")[1].split()[0])
    assert first >= parallel
    assert any("batch1: " in label and "batch1_fp16: " in label for label, _, _ in seen)
    assert {label.partition(" | ")[0] for label, _, _ in seen} == {"converting"}
    assert seen[-1] == ("converting", 4, 4)
    assert not any("\n" in label or "\x1b" in label for label, _, _ in seen)
    assert len(list((export.out / "logs").iterdir())) == 4


def test_a_failure_names_node_and_layer(export: Export, configure: Configure) -> None:
    record = convert_with("names-a-node", export, configure)
    # The AscendDequant belongs to the layer, and so does what the parser made of its product.
    places = "node 'dequant' (layer 'fc'), node 'norm', node 'fc' (layer 'fc')"
    assert f"that is {places}" in record.conversions[0].reason
    assert "node 'norm'" in record.conversions[1].reason  # of the float model
    bin_dir = export.out.parent / "bin"
    done = fake_atc.run_script(export.out, bin_dir, "batch1")
    assert f"that is {places}" in done.stdout


def test_a_message_without_a_code_is_quoted_with_a_hint(
    export: Export, configure: Configure
) -> None:
    reason = convert_with("no-code", export, configure).conversions[0].reason
    assert "libge.so" in reason and "set_env.sh" in reason


def test_the_version_that_atc_tells_is_kept(export: Export, configure: Configure) -> None:
    record = convert_with("version", export, configure)
    assert record.conversions[0].atc_version == "[INFO] ATC tool version : 7.7.7"


def test_digest_and_size_of_every_file_are_recorded(export: Export, configure: Configure) -> None:
    for conversion in convert_with("good", export, configure).conversions:
        content = (export.out / str(conversion.om)).read_bytes()
        assert conversion.sha256 == hashlib.sha256(content).hexdigest()
        assert conversion.size == len(content)


def test_the_manifest_has_the_smallest_bucket_first_and_what_is_there(
    export: Export, configure: Configure
) -> None:
    backwards = export.record.model_copy(update={"buckets": export.record.buckets[::-1]})
    executable = fake_atc.install(export.out.parent / "bin", "fp16-fails")
    loaded = configure(executable=str(executable))
    convert(loaded, backwards, export.directory, export.out)
    tree = json.loads((export.out / "manifest.json").read_text())
    assert [bucket["dims"] for bucket in tree["buckets"]] == [{"batch": 1}, {"batch": 8}]
    assert tree["chip"] == "Ascend310P3" and "smallest" in tree["rule"]
    plan = (export.directory / "plan.json").read_bytes()
    assert tree["plan"] == hashlib.sha256(plan).hexdigest()
    assert tree["buckets"][1]["inputs"] == [{"name": "x", "dtype": "float32", "shape": [8, 4]}]
    assert tree["buckets"][1]["outputs"] == [{"name": "y", "dtype": "float32", "shape": [8, 3]}]
    content = (export.out / "batch8.om").read_bytes()
    assert tree["buckets"][1]["int8"] == {
        "file": "batch8.om",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
    }
    assert tree["buckets"][1]["fp16"] is None


def test_without_atc_the_manifest_names_no_file(export: Export, configure: Configure) -> None:
    convert(configure(), export.record, export.directory, export.out)
    manifest = OmManifest.read(export.out / "manifest.json")
    assert {(x.int8, x.fp16) for x in manifest.buckets} == {(None, None)}


def test_a_full_log_disk_is_a_failed_conversion(export: Export, configure: Configure) -> None:
    (export.out / "logs").write_text("a file where a folder belongs")
    record = convert_with("good", export, configure)
    assert record.status == "failed" and "not written" in record.conversions[0].reason


def test_an_exception_ends_all_work() -> None:
    ended: list[str] = []

    def work(job: str, report: Any, stop: Any) -> str:
        if job == "bad":
            raise RuntimeError("no")
        end = time.monotonic() + 20
        while not stop.asked:
            assert time.monotonic() < end
            time.sleep(0.01)
        ended.append(job)
        return job

    with pytest.raises(RuntimeError):
        list(at_once(["a", "bad", "b"], work, 2, lambda job, line: None))
    assert ended == ["a"]  # and "b" never started


@pytest.mark.cann
def test_the_real_atc_converts_a_tiny_deploy_model(export: Export, configure: Configure) -> None:
    atc = shutil.which("atc")
    if atc is None:
        pytest.skip("atc is not on PATH: source CANN's set_env.sh")
    record = convert(configure(executable=atc), export.record, export.directory, export.out)
    assert record.status == "converted", [x.reason for x in record.conversions]
    assert Path(export.out / str(record.conversions[0].om)).is_file()
