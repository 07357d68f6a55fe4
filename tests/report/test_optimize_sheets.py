"""Tables of the optimization: passes in order, most gained and worst layers first."""

from __future__ import annotations

from quantflow.artifacts.optimize_record import (
    OptimizeRecord,
    Pass,
    RebuiltLayer,
    ShiftedTensor,
    SmoothedTensor,
)  # fmt: skip
from quantflow.report.optimize_sheets import (
    all_sheets,
    layers_sheet,
    passes_sheet,
    shifted_sheet,
    tensors_sheet,
)  # fmt: skip


def _tensor(name: str, before: float, after: float, how: str = "folded") -> SmoothedTensor:
    return SmoothedTensor.model_validate({
        "tensor": f"{name}_in", "group": name, "how": how, "scale": "strength 0.5",
        "error_before": before, "error_after": after,
    })  # fmt: skip


def _layer(name: str, *errors: float) -> RebuiltLayer:
    nearest, rounded, corrected = errors
    return RebuiltLayer(
        layer=name, error_nearest=nearest, error_rounded=rounded, error_corrected=corrected
    )


RECORD = OptimizeRecord(
    passes=(
        Pass(name="smoothing", kept=True, error_before=0.02, error_after=0.005),
        Pass(name="rounding", kept=False, error_before=0.005, error_after=0.006),
        Pass(name="bias correction", kept=True, error_before=0.0, error_after=0.0),
    ),
    samples=1200,
    metric="cosine",
    float_difference=3e-7,
    tensors=(
        _tensor("little", 0.1, 0.09),
        _tensor("nothing", 0.0, 0.0, "multiplied"),
        _tensor("much", 0.5, 0.05, "multiplied"),
    ),
    layers=(_layer("good", 0.02, 0.01, 0.01), _layer("bad", 0.9, 0.4, 0.3)),
    multiplied_elements=12345,
    notes=("a note",),
)


def test_passes_are_in_order_and_say_whether_they_are_in_force() -> None:
    sheet = passes_sheet(RECORD)
    assert [(x[0], x[1].split(":")[0]) for x in sheet.rows] == [
        ("smoothing", "kept"), ("rounding", "dropped"), ("bias correction", "kept")
    ]  # fmt: skip
    assert sheet.rows[0][2:] == ("0.02", "0.005", "75%")
    assert sheet.rows[1][2:] == ("0.005", "0.006", "-20%")
    assert sheet.rows[2][2:] == ("0", "0", "-")


def test_the_note_says_what_was_measured_and_what_it_costs() -> None:
    note = passes_sheet(RECORD).note
    for said in ("a note", "cosine of 1200", "2 Mul nodes", "12,345 elements", "3e-07"):
        assert said in note, said
    folded = RECORD.model_copy(update={"tensors": RECORD.tensors[:1]})
    assert "Mul" not in passes_sheet(folded).note and "3e-07" in passes_sheet(folded).note
    empty = OptimizeRecord(passes=(), samples=0, notes=("it came quantized",))
    assert passes_sheet(empty).note == "it came quantized"


def test_the_tensor_that_gained_most_comes_first() -> None:
    rows = tensors_sheet(RECORD).rows
    assert [x[0] for x in rows] == ["nothing", "much", "little"] or [x[0] for x in rows] == [
        "much", "little", "nothing"
    ]  # fmt: skip
    much = next(x for x in rows if x[0] == "much")
    assert much == ("much", "multiplied", "strength 0.5", "0.5", "0.05", "90%")
    assert next(x for x in rows if x[0] == "nothing")[-1] == "-"


def test_the_worst_layer_comes_first() -> None:
    assert layers_sheet(RECORD).rows == (
        ("bad", "0.9", "0.4", "0.3"), ("good", "0.02", "0.01", "0.01")
    )  # fmt: skip


def test_a_record_with_nothing_in_it_says_so() -> None:
    sheets = all_sheets(OptimizeRecord(passes=(), samples=0))
    (row,), *others = (sheet.rows for sheet in sheets)
    assert row[:2] == ("none", "no pass is on, or none had anything to do") and not any(others)
    assert len({sheet.title for sheet in sheets}) == len(sheets) == 3


def test_the_record_comes_back_from_its_file() -> None:
    assert OptimizeRecord.model_validate_json(RECORD.to_json()) == RECORD
    (found,) = [x for x in RECORD.passes if x.name == "rounding"]
    assert not found.kept


def test_shifted_tensors_are_shown_where_there_are_any() -> None:
    def shifted(name: str, before: float, after: float) -> ShiftedTensor:
        return ShiftedTensor(tensor=name, group=name, span_before=before, span_after=after)

    entries = (shifted("little", 10.0, 9.0), shifted("nothing", 0.0, 0.0), shifted("much", 8, 2))
    record = RECORD.model_copy(update={"shifted": entries})
    rows = shifted_sheet(record).rows
    assert [x[0] for x in rows] == ["nothing", "much", "little"]
    assert rows[1] == ("much", "8", "2", "75%") and rows[2][1:] == ("10", "9", "10%")
    assert len(all_sheets(record)) == 4 and len(all_sheets(RECORD)) == 3
