import shutil
from pathlib import Path

import pytest

from quantflow.cli.names import related_names
from quantflow.cli.show import What
from quantflow.cli.views import VIEWS
from quantflow.errors import QuantflowError
from tests.cli.conftest import Call
from tests.report.sample_run import fp16, model, plan, write_diagnosis, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_diagnosis(write_run(tmp_path))
    return tmp_path


def test_every_view_can_be_asked_for() -> None:
    assert {what.value for what in What} == {*VIEWS, "timings"}


@pytest.mark.parametrize("what", [what.value for what in What])
def test_every_view_has_a_table_and_json(call: Call, run: Path, what: str) -> None:
    answer = call("show", what, "--run", run)
    assert answer.code == 0 and answer.out
    assert call("show", what, "--run", run, "--json").json


def test_the_layer_that_errs_most_comes_first(call: Call, run: Path) -> None:
    lines = call("show", "layers", "--run", run).out.splitlines()
    names = [line.split()[0] for line in lines if line.strip().startswith(("block", "head"))]
    assert names[:3] == ["block.key", "head", "block.query"]


def test_a_layer_s_candidates_are_shown_on_both_splits(call: Call, run: Path) -> None:
    out = call("show", "ranges", "--layer", "block.key", "--run", run).out
    assert "Candidates for x" in out and "Candidates for h" not in out
    for text in ("minmax *", "kl", "calibration", "heldout"):
        assert text in out


def test_the_story_of_a_tensor_has_its_readers_values_outliers_and_samples(
    call: Call, run: Path
) -> None:
    out = call("show", "ranges", "--layer", "head", "--run", run).out
    lines = [line.split() for line in out.splitlines()]
    assert ["read", "by", "head", "(classifier)"] in lines
    assert ["read", "by", "odd", "(transposed", "weight)"] in lines
    assert "-4 to 4, of kl" in out and "<kl*" in out and ">kl*" in out
    assert ["1", "60", "20"] in [line[:3] for line in lines]  # the outlier channel
    assert ["calibration", "calibration[0]", "text", "0"] in lines


def test_the_story_as_json(call: Call, run: Path) -> None:
    tree = call("show", "ranges", "--layer", "head", "--run", run, "--json").json
    (story,) = tree["tensors"]
    assert story["tensor"] == "h" and [x["name"] for x in story["readers"]] == ["head", "odd"]
    assert story["extremes"]["heldout"]["high"] == 20
    assert sum(story["histogram"]["calibration"]) == pytest.approx(150)
    assert story["outlier_channels"][0]["channel"] == 1
    assert {row["split"] for row in story["candidates"]} == {"calibration", "heldout"}


def test_a_run_without_the_files_of_a_story_is_told_the_command(call: Call, run: Path) -> None:
    (run / "20_ranges" / "channel_absmax.safetensors").unlink()
    answer = call("show", "ranges", "--layer", "head", "--run", run)
    assert answer.code == 2 and "quantflow calibrate --force" in answer.err
    assert call("show", "ranges", "--run", run).code == 0


def test_json_holds_only_the_layer_asked_for(call: Call, run: Path) -> None:
    tree = call("show", "parity", "--layer", "block.key", "--run", run, "--json").json
    assert [layer["layer"] for layer in tree["parity"]["layers"]] == ["block.key"]
    tree = call("show", "plan", "--layer", "head", "--run", run, "--json").json
    assert list(tree["plan"]["groups"]) == ["head"]
    tree = call("show", "clipping", "--layer", "head", "--run", run, "--json").json
    assert {row["tensor"] for row in tree["clipping"]["rows"]} == {"h"}


def test_scores_of_one_layer_s_group_keep_their_rank(call: Call, run: Path) -> None:
    out = call("show", "scores", "--layer", "block.key", "--run", run).out
    (row,) = [line.split() for line in out.splitlines() if "block.qk" in line]
    assert row[:2] == ["1=", "block.qk"] and "classifier" not in out
    tree = call("show", "scores", "--layer", "head", "--run", run, "--json").json
    assert [score["group"] for score in tree["sweep"]["scores"]] == ["head"]


def test_the_sides_of_quantization_stand_beside_the_budget(call: Call, run: Path) -> None:
    out = " ".join(call("show", "sides", "--run", run).out.split())
    assert "INT8 activations hurt more than INT8 weights" in out and ">= 0.99" in out
    sides = call("show", "sides", "--run", run, "--json").json["sweep"]["sides"]
    assert [x["side"] for x in sides] == ["fp16", "weights", "activations", "int8"]


def test_a_view_that_is_not_about_layers_refuses_one(call: Call, run: Path) -> None:
    answer = call("show", "policies", "--layer", "head", "--run", run)
    assert answer.code == 2 and "layer by layer" in answer.err


def test_an_unknown_layer_is_answered_with_near_names(call: Call, run: Path) -> None:
    answer = call("show", "layers", "--layer", "block.qurey", "--run", run)
    assert answer.code == 2
    assert "did you mean 'block.query'" in answer.err


def test_rows_are_limited_and_the_rest_is_counted(call: Call, run: Path) -> None:
    out = call("show", "layers", "--limit", "1", "--run", run).out
    assert "1 of 4 rows; --limit 4 shows all." in out


def test_what_has_not_run_is_said_with_its_command(call: Call, run: Path) -> None:
    shutil.rmtree(run / "40_onnx")
    answer = call("show", "parity", "--run", run)
    assert answer.code == 2 and "quantflow export-onnx" in answer.err
    answer = call("show", "parity", "--run", run / "nowhere")
    assert answer.code == 2 and "QF404" in answer.err


def test_the_end_of_one_name_is_enough(call: Call, run: Path) -> None:
    tree = call("show", "parity", "--layer", "key", "--run", run, "--json").json
    assert [layer["layer"] for layer in tree["parity"]["layers"]] == ["block.key"]


def test_the_end_of_several_names_is_answered_with_them() -> None:
    layers = tuple(x.model_copy(update={"name": f"{x.name}.w"}) for x in model().layers)
    with pytest.raises(
        QuantflowError, match="4 layers, groups or quantized tensors end in 'w'"
    ) as caught:
        related_names(model().model_copy(update={"layers": layers}), "w")
    assert "block.key.w, block.query.w" in caught.value.problems[0].fix


def test_known_names_are_listed_once() -> None:
    with pytest.raises(QuantflowError) as caught:
        related_names(model(), "zzzz")
    assert (
        caught.value.problems[0].fix == "known: block.key, block.qk, block.query, h, head, odd, x"
    )


def test_the_summary_has_a_row_for_every_dotted_key(call: Call, run: Path) -> None:
    lines = call("show", "summary", "--run", run).out.splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert cells["fidelity.int8.cosine_mean"] == ["0.9946"]
    assert cells["deploy.op_types.MatMul"] == ["3"]
    assert cells["fp16_groups"] == ["head"] and cells["plan.verified"] == ["true"]


def test_a_summary_can_be_shown_after_the_first_stage(call: Call, run: Path) -> None:
    for folder in ("20_ranges", "30_sweep", "40_onnx", "45_compare", "50_om"):
        shutil.rmtree(run / folder)
    summary = call("show", "summary", "--run", run, "--json").json["summary"]
    assert summary["drift"] == {"verdict": "pass"} and summary["deploy"] is None
    for folder in ("00_model", "10_set"):
        shutil.rmtree(run / folder)
    answer = call("show", "summary", "--run", run)
    assert answer.code == 2 and "`quantflow run`" in answer.err


def test_json_has_no_infinity(call: Call, run: Path) -> None:
    island = fp16().islands[0].model_copy(update={"absmax": float("inf")})
    infinite = plan().model_copy(update={"islands": (island,)})
    infinite.write(run / "30_sweep" / "plan.json")
    answer = call("show", "plan", "--run", run, "--json")
    assert answer.json["plan"]["islands"][0]["absmax"] == "Infinity"


def test_an_empty_table_is_said_in_words(call: Call, run: Path) -> None:
    assert "not finite: none" in call("show", "ranges", "--run", run).out


def test_the_report_is_written_from_the_artifacts(call: Call, run: Path) -> None:
    answer = call("report", "--run", run, "--json")
    assert answer.json == {"report": str(run / "report.html")}
    assert (run / "report.html").read_text().startswith("<!doctype html>")


NO_TIMINGS = [
    "[]", '{"a": [1]}', '{"a": {"seconds": "x"}}', "{", "[" * 10**5,
    '{"a": ' * 900 + "1" + "}" * 900,
    '{"a": {"seconds": 1' + "0" * 400 + ', "finished": "x"}}',
    '{"a": {"seconds": 1' + "0" * 5000 + ', "finished": "x"}}',
    '{"a": {"seconds": NaN, "finished": "x"}}',
    '{"a": {"seconds": 1, "finished": "\\ud800"}}',
    '{"\\ud800": {"seconds": 1, "finished": "x"}}',
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TIMINGS)
def test_timings_of_another_shape_are_none(call: Call, run: Path, text: str) -> None:
    (run / "timings.json").write_text(text)
    answer = call("show", "timings", "--run", run, "--json")
    assert answer.code == 0 and answer.json == {}
    assert call("show", "timings", "--run", run).code == 0
