"""`compare --runner om` on stand-ins: the files that pass for .om run known ONNX models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from quantflow.__main__ import main
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.side_by_side import SideBySide
from quantflow.ascend.probe_cases import probe_cases
from quantflow.ascend.probes import write_probes
from quantflow.config import TargetConfig
from quantflow.errors import QuantflowError
from quantflow.evaluation import latency
from quantflow.evaluation.precisions import precision_model
from quantflow.export.lowering import lower
from quantflow.graph.model_io import load_model, save_model
from quantflow.report.side_by_side_sheets import side_by_side_sheets
from quantflow.stages import runner_sides
from quantflow.stages.runner_sides import compare_om
from quantflow.stages.side_by_side import Asked
from tests.evaluation.exported_encoder import bucket_of, compare, export_encoder
from tests.runtime.om_standins import put_on_path, standin_om
from tests.sensitivity.projects import context_of

DTYPES = {1: "float32", 7: "int64", 10: "float16"}


def described(values: Any, dtype: str = "") -> list[Any]:
    return [
        [
            value.name,
            dtype or DTYPES[value.type.tensor_type.elem_type],
            [dim.dim_value for dim in value.type.tensor_type.shape.dim],
        ]
        for value in values
    ]


def write(path: Path, model: Path, **more: Any) -> None:
    """An .om that runs an ONNX model, and gives fp16 under the names that atc gives."""
    graph = onnx.load(model).graph
    outputs = described(graph.output, "float16")
    for output in outputs:
        output[0] = f"Cast_1:0:{output[0]}"
    standin_om().write_om(
        path, inputs=described(graph.input), outputs=outputs, onnx=str(model), **more
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"), blocks=1)


@pytest.fixture
def config(exported: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The run with both .om files; the int8 one is slower by 4 ms."""
    put_on_path(monkeypatch)
    monkeypatch.setattr(latency, "WARM_UP", 2)
    monkeypatch.setattr(latency, "ROUNDS", 12)
    folder, bucket = bucket_of(exported)
    om = folder.parent / "50_om"
    om.mkdir()
    plan = PrecisionPlan.read(folder / "plan.json")
    for name, suffix, sleep in (("int8", "", 6), ("fp16", "_fp16", 2)):
        path = om / f"{name}.onnx"
        save_model(precision_model(name, folder, bucket, plan, TargetConfig()), path)
        write(om / f"{bucket.name}{suffix}.om", path, sleep_ms=sleep)
    yield exported
    shutil.rmtree(om)


def own(config: Path, **asked: Any) -> SideBySide:
    return compare_om(context_of(config), [], Asked(**asked), 0)


def om_of(config: Path, suffix: str = "") -> str:
    return str(config.parent / "run" / "50_om" / f"{bucket_of(config)[1].name}{suffix}.om")


def test_the_runs_own_files_are_compared_and_timed_in_turns(config: Path) -> None:
    found = own(config)
    assert [x.kind for x in (found.reference, found.other)] == ["om_fp16", "om_int8"]
    assert found.other.ran_on == "Ascend310P3, device 0"
    emulated = compare(config, "fp16", "int8")
    outputs = [x for x in emulated.points if x.kind == "output"]
    measured = [x for x in found.points if x.kind == "output"]
    assert [x.tensor for x in measured] == [x.tensor for x in outputs]
    for a, b in zip(measured, outputs, strict=True):  # but for the cast to fp16 at the end
        assert a.cosine == pytest.approx(b.cosine, abs=1e-5) and a.samples == b.samples == 10
    assert found.limits == emulated.limits and found.verdict == emulated.verdict
    times = found.latency
    assert times is not None and times.device == "Ascend310P3, device 0"
    assert (times.batch, times.warm_up, times.rounds) == (2, 2, 12)
    assert [x.side for x in times.sides] == [om_of(config, "_fp16"), om_of(config)]
    for side, least in zip(times.sides, (2, 6), strict=True):
        assert least <= side.p10_ms <= side.median_ms <= side.p90_ms
    assert times.ratio is not None and times.ratio_low is not None and times.ratio_high is not None
    assert times.ratio == pytest.approx(times.sides[1].median_ms / times.sides[0].median_ms)
    assert times.ratio_low <= times.ratio <= times.ratio_high and times.ratio > 1


def test_an_om_against_the_emulation_of_the_same_file_shows_nothing(config: Path) -> None:
    found = compare_om(context_of(config), ["int8", om_of(config)], Asked(limit=4), 0)
    assert found.verdict == "pass" and found.other.kind == "om_int8"
    assert all(x.cosine > 1 - 1e-6 for x in found.points)
    assert found.latency is not None and found.latency.ratio is None
    assert any("lacks them" in note for note in found.notes)


def test_a_file_of_another_place_is_judged_as_int8(config: Path, tmp_path: Path) -> None:
    path = shutil.copy(om_of(config, "_fp16"), tmp_path / "mine.om")
    found = compare_om(context_of(config), ["fp32", str(path)], Asked(limit=4), 0)
    assert found.other.kind == "om" and found.verdict == "pass"
    assert found.limits.output_error is None  # as of int8; of fp16 it is a number


def test_a_wrong_om_fails_at_its_outputs(config: Path) -> None:
    folder, bucket = bucket_of(config)
    model = onnx.load(folder / bucket.float_twin)
    tensor = next(x for x in model.graph.initializer if len(x.dims) == 2)
    array = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(-array, tensor.name))
    path = Path(om_of(config)).parent / "wrong.onnx"
    onnx.save(model, path)
    write(Path(om_of(config)), path)
    found = own(config, limit=4)
    assert found.verdict == "fail" and any("output" in x for x in found.reasons)
    assert found.first_beyond is not None


@pytest.mark.parametrize(
    ("dtype", "more", "said"),
    [("float16", 1, r"is float16 \(.*\), not float32 \("), ("int32", 0, r"is int32 \(")],
)
def test_an_om_whose_outputs_are_not_the_model_s_is_refused(
    config: Path, dtype: str, more: int, said: str
) -> None:
    graph = onnx.load(Path(om_of(config)).parent / "int8.onnx").graph
    outputs = described(graph.output, dtype)
    outputs[0][2][-1] += more
    for suffix in ("", "_fp16"):  # both alike, so that they would agree with each other
        path = Path(om_of(config, suffix))
        standin_om().write_om(path, inputs=described(graph.input), outputs=outputs)
    with pytest.raises(QuantflowError, match=f"QF211 its output .* {said}"):
        own(config)


def test_what_is_no_time_is_a_note_and_no_table(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_sides, "measure_latency", lambda *_: "no time was measured: because")
    found = own(config, limit=4)
    assert found.latency is None and found.notes[-1] == "no time was measured: because"
    assert found.verdict == "pass"
    assert not any("Measured on" in sheet.note for sheet in side_by_side_sheets(found, 20))


def test_nan_and_inf_of_both_files_do_not_pass(config: Path) -> None:
    folder = Path(om_of(config)).parent
    for name, suffix in (("int8", ""), ("fp16", "_fp16")):
        model = onnx.load(folder / f"{name}.onnx")
        (last,) = (x for x in model.graph.node if model.graph.output[0].name in x.output)
        last.output[0] = "finite"
        huge = onnx.helper.make_tensor("huge", 1, [], [float("inf")])
        node = onnx.helper.make_node("Max", ["finite", "huge"], [model.graph.output[0].name])
        model.graph.initializer.append(huge)
        model.graph.node.append(node)
        path = folder / f"{name}_inf.onnx"
        onnx.save(model, path)
        write(Path(om_of(config, suffix)), path)
    found = own(config, limit=4)
    assert found.verdict == "fail" and "NaN or Inf" in found.reasons[0]


def place_probes(config: Path, *names: str) -> None:
    """Compiled probes of a chip that does all as it is assumed; all of them without names."""
    om = config.parent / "run" / "50_om"
    for probe in write_probes(om, TargetConfig()):
        if not names or probe.name in names:
            path = om / f"{probe.name}_lowered.onnx"
            model = load_model(probe.file)
            save_model(lower(model, fp19=True, emulate_fp16=True, islands=frozenset()), path)
            write(om / f"{probe.name}.om", path)


def test_probes_of_a_chip_that_does_as_assumed_pass(config: Path) -> None:
    place_probes(config)
    found = own(config, limit=4)
    assert {x.name: x.answer for x in found.probes} == {x.name: x.assumed for x in probe_cases()}
    assert all(x.answer == x.assumed and not x.meaning for x in found.probes)
    assert found.verdict == "pass" and not found.reasons


def test_a_chip_with_another_habit_fails_and_is_told_what_to_set(config: Path) -> None:
    place_probes(config, "probe_matmul_offset")
    case = next(x for x in probe_cases() if x.name == "probe_per_channel")
    x, weight = case.x.astype(np.float64), case.weight.astype(np.float64)
    om = config.parent / "run" / "50_om" / f"{case.name}.om"
    give(om, case.name, (x @ weight) * float(case.scale[0]))  # the first scale for all
    give(om.with_name("probe_rounding.om"), "probe_rounding", np.full((1, 16, 64), 7.0))
    found = own(config, limit=4)
    answers = {x.name: x for x in found.probes}
    assert answers[case.name].answer == "the first scale for all channels"
    assert answers["probe_rounding"].answer == ""
    assert found.verdict == "fail" and len(found.reasons) == 2
    assert 'quantization.weight_granularity = "per-tensor"' in found.reasons[0]
    assert "none of the known answers" in found.reasons[1]


def give(path: Path, name: str, output: np.ndarray) -> None:
    """An .om of a probe whose output is this, whatever it reads."""
    tensor = onnx.numpy_helper.from_array(output.astype(np.float32), "constant")
    case = next(x for x in probe_cases() if x.name == name)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["constant"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, case.x.shape)],
        [onnx.helper.make_tensor_value_info("y", 1, output.shape)],
        [tensor],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    model = path.with_name(f"{name}_wrong.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), model)
    write(path, model)


def test_the_command_prints_what_was_measured_and_where(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place_probes(config, "probe_per_channel")
    output = tmp_path / "found.json"
    words = ["compare", "--runner", "om:1", "-c", str(config), "--limit", "4", "-q"]
    assert main([*words, "-o", str(output)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Measured on Ascend310P3, device 1" in said and "Ratio of the medians" in said
    assert "What the chip answers" in said and "one scale per output channel" in said
    record = SideBySide.read(output)
    assert record.latency is not None and len(record.probes) == 1
    assert json.loads(output.read_text())["latency"]["device"] == "Ascend310P3, device 1"


def test_without_acl_and_ais_bench_nothing_is_measured(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--runner", "om", "-c", str(exported), "-q"]) == 3
    captured = capsys.readouterr()
    assert "QF620" in captured.err and "no .om file was run or measured" in captured.err
    assert "set_env.sh" in captured.err and captured.out == ""


def test_a_run_without_om_files_says_where_they_come_from(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch)
    with pytest.raises(QuantflowError, match=r"QF401 there is no fp16 \.om.*(\n.*)*convert\.py"):
        own(exported)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["fp32", "int8", "--runner", "om"], "QF109", "an .om file among the sides"),
        (["fp32", "OM"], "QF109", "--runner om"),
        (["fp32", "OM", "--runner", "omm"], "QF107", "om"),
        (["fp32", "OM", "--runner", "om:x"], "QF109", "om:N"),
        (["fp32", "OM", "--runner", "onnxruntime:1"], "QF109", "no device"),
        (["fp32", "int8", "--runner", "om"], "QF109", "50_om/batch2_length6.om"),
        (["fp32", "MISSING", "--runner", "om"], "QF401", "not converted yet"),
        (["fp32", "MISSING", "--runner", "om"], "QF401", "convert.py"),
        (["fp32", "MISSING", "--runner", "om"], "QF401", "or give batch2_length6.om,"),
        (["fp32", "nowhere.om", "--runner", "om"], "QF107", "no such file"),
        (["fp32", "OM", "--runner", "torch"], "QF109", "--runner om"),
        (["--runner", "torch"], "QF109", "quantflow compare fp32 int8 --runner torch"),
        (["--runner", "torch"], "QF109", "two sides"),
        (["fp32", "int8", "--runner", "torch:tpu"], "QF109", "torch:cpu, torch:cuda:N or"),
        (["fp32", "int8", "--runner", "torch:"], "QF109", "no device"),
        (["fp32", "int8", "--runner", f"om:{'9' * 5000}"], "QF109", "om:N"),
        (["fp32", "int8", "--runner", "torch"], "QF109", "leave --runner out"),
        (["OM", "--runner", "om"], "QF109", "two sides"),
        (["fp32", "int8", "--runner", "torch"], "QF109", "ONNX file, not a torch module"),
        (["fp16", "int8", "--runner", "torch"], "QF109", "the side fp32"),
        (["fp32", "TEXT", "--runner", "om"], "QF702", "not a complete .om file"),
    ],
)
def test_what_does_not_go_together_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    words: list[str], code: str, said: str,
) -> None:  # fmt: skip
    text = tmp_path / "text.om"
    text.write_text("no model")
    missing = om_of(config).replace("batch2", "batch4")
    places = {"OM": om_of(config), "TEXT": str(text), "MISSING": missing}
    status = main(["compare", *(places.get(x, x) for x in words), "-c", str(config), "-q"])
    said_there = " ".join(capsys.readouterr().err.split())
    assert status in (2, 4) and code in said_there and said in said_there
