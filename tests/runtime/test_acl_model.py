"""pyACL's runner on a stand-in: nothing leaks, whatever call fails, and the failure is named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from quantflow.errors import QuantflowError
from quantflow.runtime.acl_model import AclModel
from tests.runtime.om_standins import put_on_path, standin_om

INPUTS = [["ids", "int64", [2, 3]], ["x", "float32", [2, 4]]]
OUTPUTS = [["twice_x", "float16", [2, 4]], ["twice_ids", "int64", [2, 3]]]
IDS = np.arange(6, dtype=np.int64).reshape(2, 3)
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
FEEDS = {"x": X, "ids": IDS}  # in another order than the .om's


@pytest.fixture
def acl(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    put_on_path(monkeypatch)
    import acl  # type: ignore[import-not-found]

    return acl


@pytest.fixture
def om(acl: ModuleType, tmp_path: Path) -> str:
    return str(standin_om().write_om(tmp_path / "net.om", inputs=INPUTS, outputs=OUTPUTS))


def test_outputs_are_those_of_the_inputs_by_name(om: str, acl: ModuleType) -> None:
    with AclModel(om, 1) as model:
        assert np.isnan(model.last_ms)
        for factor in (1, 3):  # twice, as buffers are used again
            found = model.run({"x": X * factor, "ids": IDS * factor})
            np.testing.assert_array_equal(found["twice_ids"], 2 * factor * IDS)
            assert found["twice_x"].dtype == np.float16
            np.testing.assert_array_equal(
                found["twice_x"], (2 * X * np.float32(factor)).astype(np.float16)
            )
        assert model.last_ms >= 0
        assert model.outputs == ("twice_x", "twice_ids")
        assert model.device == "Ascend310P3, device 1"
        assert acl.left() == {
            "acl": 1, "device": 1, "context": 1, "model": 1, "description": 1, "dataset": 2,
            "memory": 4, "buffer": 4,
        }  # fmt: skip
    assert acl.left() == {}


def test_arrays_that_are_not_contiguous_are_copied_right(om: str, acl: ModuleType) -> None:
    with AclModel(om) as model:
        found = model.run({"x": np.asfortranarray(X), "ids": np.flip(IDS, 1)})
        np.testing.assert_array_equal(found["twice_ids"], 2 * IDS[:, ::-1])
        np.testing.assert_array_equal(found["twice_x"], (2 * X).astype(np.float16))


def _whole(om: str) -> None:
    with AclModel(om) as model:
        model.run(FEEDS)


def test_a_code_of_any_call_is_named_and_nothing_leaks(om: str, acl: ModuleType) -> None:
    _whole(om)
    made = list(acl.calls)
    assert {"init", "mdl.execute", "rt.memcpy", "rt.free", "finalize"} <= set(made)
    for number, name in enumerate(made):
        acl.reset()
        acl.fail_at = number
        with pytest.raises(QuantflowError) as caught:
            _whole(om)
        (problem,) = caught.value.problems
        assert problem.code == "QF621" and caught.value.exit_code == 3
        assert f"acl.{name} " in problem.what and problem.where == om
        handles = ("mdl.create_desc", "mdl.create_dataset", "create_data_buffer")
        assert ("507899" in problem.what) == (name not in handles)
        assert acl.left() == {}, name
    acl.reset()
    _whole(om)  # and the process may load one again


def test_a_first_failure_is_told_also_where_giving_back_fails(om: str, acl: ModuleType) -> None:
    acl.fail |= {"mdl.execute", "rt.free", "finalize"}
    model = AclModel(om)
    with pytest.raises(QuantflowError, match=r"acl\.mdl\.execute"):
        model.run(FEEDS)
    with pytest.raises(QuantflowError, match=r"acl\.(rt\.free|finalize)"):
        model.close()
    assert acl.left() == {}
    acl.fail |= {"mdl.get_desc"}
    with pytest.raises(QuantflowError, match=r"acl\.mdl\.get_desc"):
        AclModel(om)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"x": X.astype(np.float64)}, r"'x' is float32 \(2, 4\), not float64 \(2, 4\)"),
        ({"x": X[:1]}, r"not float32 \(1, 4\)"),
        ({"x": X.reshape(4, 2)}, r"not float32 \(4, 2\)"),
        ({"ids": IDS.astype(np.int32)}, r"'ids' is int64"),
        ({"more": X}, "more"),
    ],
)
def test_what_is_not_the_oms_input_is_refused_before_anything_is_copied(
    om: str, acl: ModuleType, changed: dict[str, Any], said: str
) -> None:
    with AclModel(om) as model, pytest.raises(QuantflowError, match=said) as caught:
        model.run({**FEEDS, **changed})
    assert caught.value.problems[0].code == "QF211"
    assert "rt.memcpy" not in acl.calls and acl.left() == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"inputs": [["x", "float32", [-1, 4]]]}, "not static"),
        ({"outputs": [["y", "bfloat16", [2, 4]]]}, "aclDataType 27"),
        ({"more_bytes": -8}, "bytes"),
    ],
)
def test_an_om_that_cannot_be_run_as_described_is_refused(
    acl: ModuleType, tmp_path: Path, content: dict[str, Any], said: str
) -> None:
    given = {"inputs": INPUTS, "outputs": OUTPUTS, **content}
    path = standin_om().write_om(tmp_path / "net.om", **given)
    with pytest.raises(QuantflowError, match=said) as caught:
        AclModel(str(path))
    assert caught.value.problems[0].code == "QF211"
    assert acl.left() == {}


def test_a_process_holds_one_and_a_closed_one_does_not_run(om: str, acl: ModuleType) -> None:
    with AclModel(om) as model:
        with pytest.raises(RuntimeError, match="already"):
            AclModel(om)
        np.testing.assert_array_equal(model.run(FEEDS)["twice_ids"], 2 * IDS)
    model.close()
    with pytest.raises(RuntimeError, match="closed"):
        model.run(FEEDS)


def test_an_acl_without_a_function_is_one_coded_error(
    om: str, acl: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(acl.mdl, "get_desc")
    with pytest.raises(QuantflowError, match=r"QF621 acl\.mdl\.get_desc is not in this version"):
        AclModel(om)
    assert acl.left() == {}
