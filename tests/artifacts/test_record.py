"""Records: canonical JSON, exact round trips, and files that are not what they should be."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.comparison import Fidelity, TaskScore
from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord, TensorInfo
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island, RangesRecord, TensorRange
from quantflow.artifacts.record import Record, worst
from quantflow.errors import QuantflowError
from quantflow.numerics.quantize import QuantParams


class Sample(Record):
    """A record with every kind of field that records have."""

    name: str = ""
    value: float = 0.0
    maybe: float | None = None
    pair: tuple[float, ...] = ()
    table: dict[str, float] = {}  # noqa: RUF012


def read_back(record: Record, folder: Path) -> Record:
    record.write(folder / "r.json")
    return type(record).read(folder / "r.json")


@given(st.floats(), st.lists(st.floats(), max_size=3), st.text(max_size=5))
def test_text_that_was_written_reads_back_exactly(
    value: float, pair: list[float], name: str
) -> None:
    record = Sample(name=name, value=value, maybe=value, pair=tuple(pair), table={name: value})
    again = Sample.model_validate_json(record.to_json())
    assert again.to_json() == record.to_json()
    for a, b in zip(
        (value, value, *pair, value), (again.value, again.maybe, *again.pair, again.table[name]),
        strict=True,
    ):  # fmt: skip
        assert b is not None
        assert (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_values_that_are_not_finite_are_written_as_strings(
    tmp_path: Path, value: float, text: str
) -> None:
    record = Sample(value=value, maybe=value, pair=(value,), table={"a": value})
    record.write(tmp_path / "r.json")
    tree = json.loads(
        (tmp_path / "r.json").read_text(), parse_constant=lambda name: pytest.fail(name)
    )
    assert tree["value"] == tree["maybe"] == tree["pair"][0] == tree["table"]["a"] == text
    again = Sample.read(tmp_path / "r.json")
    for found in (again.value, again.maybe, again.pair[0], again.table["a"]):
        assert found == value or (math.isnan(value) and found is not None and math.isnan(found))


def test_json_is_canonical() -> None:
    text = Sample(name="ü", table={"b": 0.1, "a": 1e300}).to_json()
    assert text.endswith("}\n") and "ü" in text and text.index('"a"') < text.index('"b"')
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert Sample(table={"a": 1.0, "b": 2.0}).to_json() == Sample(table={"b": 2, "a": 1}).to_json()


def test_a_float32_survives_the_file(tmp_path: Path) -> None:
    # C4: a scale is a float32 value; the table reloads to the same bits.
    scales = tuple(float(x) for x in np.random.default_rng(0).random(100).astype(np.float32))
    factors = LayerFactors(layer="a", group="a", precision="int8", scale_w=scales)
    again = read_back(factors, tmp_path)
    assert isinstance(again, LayerFactors)
    assert np.array_equal(np.float32(again.scale_w), np.float32(scales))


def test_records_of_every_stage_read_back_equal(tmp_path: Path) -> None:
    layer = Layer(
        name="a.b", node="a.b", op_type="MatMul", role="ffn", group="a.b", input="x", weight="w",
        bias=None, bias_node=None, output="y", macs=7,
    )  # fmt: skip
    ids = TensorInfo(name="ids", dtype="int64", shape=("batch", 3))
    mask = TensorInfo(name="m", dtype="bool", shape=("batch", 3), mask=True)
    records: list[Record] = [
        ModelRecord(
            opset=18, inputs=(ids, mask), outputs=(), layers=(layer,), groups=(), padding=()
        ),
        RangesRecord(
            ranges=(TensorRange(tensor="x", low=-1, high=2, estimator="kl", symmetric=False),),
            nonfinite=(),
        ),
        PrecisionPlan(
            policy="none",
            groups={"g": PlannedGroup(precision="fp16", reason="pinned")},
            islands=(Island(node="n", op_type="Pow", tensor="t", absmax=1e6),),
        ),
        Fidelity(
            cosine_mean=1, cosine_min=1, cosine_low=1, cosine_high=1,
            max_abs_error=math.nan, worst_samples=(),
        ),
        TaskScore(value=math.inf, low=0, high=0),
    ]  # fmt: skip
    for record in records:
        assert read_back(record, tmp_path).to_json() == record.to_json()


def test_a_shape_keeps_numbers_and_names_apart(tmp_path: Path) -> None:
    info = TensorInfo(name="x", dtype="float32", shape=("3", 3, "batch"))
    again = read_back(info, tmp_path)
    assert isinstance(again, TensorInfo) and again.shape == ("3", 3, "batch")


# --- files that are not what they should be ----------------------------------------------------


def code_of(path: Path) -> str:
    with pytest.raises(QuantflowError) as caught:
        Sample.read(path)
    assert caught.value.problems[0].where == str(path)
    return caught.value.problems[0].code


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    assert code_of(tmp_path / "none.json") == "QF401"
    assert code_of(tmp_path) == "QF401"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"name": 1}', b'{"nam": "a"}', b'{"value": "x"}',
        b'{"name": "a"', b'{"pair": [1, null]}', b'{"maybe": []}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(data)
    assert code_of(path) == "QF402"


def test_a_damaged_plan_that_no_digest_tells_is_mended_by_force(tmp_path: Path) -> None:
    # A plan may be edited, so its stage counts as current: without --force it would not run.
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(QuantflowError) as caught:
        PrecisionPlan.read(tmp_path / "plan.json")
    assert caught.value.problems[0].fix.endswith("rerun the stage that writes it with --force")


@given(st.integers(0, 60))
def test_a_truncated_file_is_never_taken_for_a_record(end: int) -> None:
    import tempfile

    data = Sample(name="some name", value=1.5, pair=(1, 2)).to_json().encode().rstrip()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.json"
        path.write_bytes(data[: min(end, len(data) - 1)])
        assert code_of(path) == "QF402"


def test_the_message_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"policy": "none", "groups": {"g": {"precision": "int4"}}}')
    with pytest.raises(QuantflowError, match=r"groups\.g\.precision.*'int8' or 'fp16'"):
        PrecisionPlan.read(path)


# --- what records compute ----------------------------------------------------------------------


def test_the_worst_verdict() -> None:
    assert worst() == "pass" and worst("pass", "pass") == "pass"
    assert worst("pass", "warn") == "warn" and worst("warn", "fail", "pass") == "fail"


def test_a_plan_tells_its_fp16_groups_and_islands() -> None:
    plan = PrecisionPlan(
        policy="none",
        groups={name: PlannedGroup(precision=p) for name, p in
                (("z", "fp16"), ("b", "int8"), ("a", "fp16"))},
        islands=(Island(node="n", op_type="Pow", tensor="t", absmax=1e6),),
    )  # fmt: skip
    assert plan.fp16_groups == ["a", "z"] and plan.island_nodes == {"n"}


def test_a_range_gives_its_parameters_and_unknown_tensors_are_refused() -> None:
    entry = TensorRange(tensor="x", low=0, high=255, estimator="kl", symmetric=False)
    record = RangesRecord(ranges=(entry,), nonfinite=())
    assert record.of("x").params == QuantParams(1.0, -128)
    with pytest.raises(KeyError):
        record.of("y")
