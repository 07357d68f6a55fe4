from quantflow.report.drift_sheets import examples_sheet, features_sheet, selections_sheet
from tests.report.sample_run import drift, sample_set


def test_a_matched_set_stands_beside_the_random_draw() -> None:
    before, after = selections_sheet(drift()).rows
    assert before == ("random draw", "fail", "text.length", "7.00", "0.90", "0.80 to 0.95")
    assert after == ("matched", "pass", "text.length", "1.00", "0.55", "0.45 to 0.65")


def test_an_auc_below_chance_is_explained_for_a_matched_set() -> None:
    test = drift().classifier
    assert test is not None
    below = {"classifier": test.model_copy(update={"auc": 0.4})}
    assert "matched to this very sample" in selections_sheet(drift().model_copy(update=below)).note
    random = drift().model_copy(update={**below, "selection": "random"})
    for record in (drift(), random):
        assert "matched to this" not in selections_sheet(record).note


def test_a_random_draw_stands_alone() -> None:
    record = drift().model_copy(update={"selection": "random", "before": None})
    assert [row[0] for row in selections_sheet(record).rows] == ["random draw"]


def test_samples_that_stand_out_are_shown_with_their_text() -> None:
    rows = examples_sheet(drift("fail"), [sample_set("calibration")]).rows
    assert rows == (
        ("calibration[2]", "text.length", "text 2"),
        ("calibration[0]", "text.length", "text 0"),
    )


def test_a_set_that_looks_like_deployment_has_no_such_samples() -> None:
    assert examples_sheet(drift(), [sample_set("calibration")]).rows == ()


def test_without_a_deployment_sample_that_is_said() -> None:
    update = {"features": (), "classifier": None, "before": None}
    record = drift().model_copy(update=update)
    assert "nothing to compare" in features_sheet(record).note
    assert selections_sheet(record).rows[0][2:] == ("", "-", "-", "-")


def test_the_duplicate_rate_of_both_sides_is_said() -> None:
    counts = drift().counts.model_copy(
        update={"calibration_repeated": 0.25, "deployment_repeated": 0.125}
    )
    note = features_sheet(drift().model_copy(update={"counts": counts})).note
    assert "Repeats take 25.0% off" in note and "12.5% off deployment's" in note
