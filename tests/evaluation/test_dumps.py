"""Directories of tensors: what is read, whose it is, and what is refused."""

from __future__ import annotations

import json
import pickle  # noqa: TID251  # to show that it is not read
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.side_by_side import SideBySide
from quantflow.errors import QuantflowError
from quantflow.evaluation.dump_names import sanitized, shared_names, tensors_in_dump
from quantflow.evaluation.dumps import open_dump
from quantflow.evaluation.msprobe import module_name
from quantflow.evaluation.places import Place
from quantflow.progress import no_progress
from quantflow.stages.side_by_side import Asked, compare_directories
from tests.graph.models import rand


def write(directory: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        path = directory / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    return directory


def write_msprobe(
    directory: Path, arrays: Mapping[str, np.ndarray], *, folder: str = "dump_tensor_data"
) -> Path:
    """A dump of level L0 as msprobe lays it out; keys are those of dump.json."""
    data = dict[str, object]()
    for key, array in arrays.items():
        file = f"{key}.output.0.npy"
        info = {
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape),
            "Max": float(array.max()), "Min": float(array.min()), "data_name": file,
        }  # fmt: skip
        data[key] = {"input_args": [], "input_kwargs": {}, "output": [info]}
        (directory / folder).mkdir(parents=True, exist_ok=True)
        np.save(directory / folder / file, array)
    write_listing(directory, data, folder)
    return directory


def write_listing(directory: Path, data: object, folder: str = "dump_tensor_data") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tree = {
        "task": "tensor", "level": "L0", "framework": "pytorch",
        "dump_data_dir": f"/home/user/dump/step0/rank0/{folder}", "data": data,
    }  # fmt: skip
    (directory / "dump.json").write_text(json.dumps(tree))


def read_all(directory: Path) -> None:
    dump = open_dump(directory)
    for name in dump.tensors:
        dump.read(name)


def refusal(directory: Path) -> str:
    with pytest.raises(QuantflowError) as error:
        read_all(directory)
    (problem,) = error.value.problems
    assert problem.code == "QF341" and problem.fix and problem.where
    return str(problem)


def test_files_are_called_after_their_place_in_the_directory(tmp_path: Path) -> None:
    a, b = rand(2, 3), rand(4, seed=1)
    write(tmp_path, {"encoder/layer.0/out": a, "head": b})
    np.savez(tmp_path / "more.npz", **{"x.y": a, "z": b})
    np.savez(tmp_path / "single.npz", a)
    dump = open_dump(tmp_path)
    assert list(dump.tensors) == ["encoder/layer.0/out", "head", "x.y", "z", "single"]
    np.testing.assert_array_equal(dump.read("encoder/layer.0/out"), a)
    np.testing.assert_array_equal(dump.read("z"), b)
    np.testing.assert_array_equal(dump.read("single"), a)


def test_an_npy_is_mapped_and_not_read_in_whole(tmp_path: Path) -> None:
    write(tmp_path, {"a": rand(2, 3)})
    assert isinstance(open_dump(tmp_path).read("a"), np.memmap)


@pytest.mark.parametrize(("key", "name"), [
    ("Module.conv2.Conv2d.forward.0", "conv2"),
    ("Module.bert.layer.0.output.dense.Linear.forward.0", "bert.layer.0.output.dense"),
    ("Module.norm.RMSNorm.forward.3", "norm#3"),
    ("Cell.model.layers.5.FusedRMSNorm.forward.0", "model.layers.5"),
    ("Functional.conv2d.0.forward", "Functional.conv2d.0"),
    ("Module.conv2.Conv2d.backward.0", ""),
    ("Module.conv2.Conv2d.parameters_grad", ""),
])  # fmt: skip
def test_names_of_msprobe_are_those_of_modules(key: str, name: str) -> None:
    assert module_name(key) == name


def test_the_layout_of_msprobe_is_read_in_its_order(tmp_path: Path) -> None:
    keys = ["Module.z.Linear.forward.0", "Module.a.b.Linear.forward.0", "Module.z.Linear.forward.1"]
    arrays = {key: rand(2, 3, seed=i) for i, key in enumerate(keys)}
    dump = open_dump(write_msprobe(tmp_path / "step0" / "rank0", arrays).parents[1])
    assert list(dump.tensors) == ["z", "a.b", "z#1"]
    np.testing.assert_array_equal(dump.read("a.b"), arrays[keys[1]])


def test_a_module_may_give_several_tensors(tmp_path: Path) -> None:
    files = [{"data_name": "a.0.npy"}, {"type": "int", "value": 3}, {"data_name": "a.2.npy"}]
    write_listing(tmp_path, {"Module.a.LSTM.forward.0": {"output": files}})
    write(tmp_path / "dump_tensor_data", {"a.0": rand(3), "a.2": rand(4)})
    dump = open_dump(tmp_path)
    assert {name: dump.read(name).shape for name in dump.tensors} == {
        "a": (3,), "a.output.2": (4,)
    }  # fmt: skip


def test_the_folder_may_be_the_one_that_dump_json_names_or_its_own(tmp_path: Path) -> None:
    arrays = {"Module.z.Linear.forward.0": rand(2, 3)}
    for folder in ("tensors", "."):
        root = write_msprobe(tmp_path / folder.replace(".", "own"), arrays, folder=folder)
        assert list(open_dump(root).tensors) == ["z"]


def test_pickles_are_refused_unless_they_were_written_as_npy(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.pt").write_bytes(pickle.dumps([1]))
    assert "is a pickle" in refusal(tmp_path / "plain")
    assert "numpy.save" in refusal(tmp_path / "plain")
    np.save(tmp_path / "plain" / "a.npy", rand(3))
    assert list(open_dump(tmp_path / "plain").tensors) == ["a"]
    data = {"Module.a.Linear.forward.0": {"output": [{"data_name": "a.0.pt"}]}}
    write_listing(tmp_path / "probe", data)
    (tmp_path / "probe" / "a.0.pt").write_bytes(pickle.dumps([1]))
    assert "is a pickle" in refusal(tmp_path / "probe")
    np.save(tmp_path / "probe" / "a.0.npy", rand(3))
    assert list(open_dump(tmp_path / "probe").tensors) == ["a"]


@pytest.mark.parametrize(
    "name", ["../secret.npy", "/etc/passwd", "a/../../secret.npy", "..\\x.npy"]
)
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "secret.npy", rand(3))
    write_listing(tmp_path / "d", {"Module.a.Linear.forward.0": {"output": [{"data_name": name}]}})
    assert "leads out of the directory" in refusal(tmp_path / "d")


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "secret.npy", rand(3))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.npy").symlink_to(tmp_path / "secret.npy")
    assert "leads out of the directory" in refusal(tmp_path / "d")


def test_dump_data_dir_elsewhere_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"a.output.0": rand(3)})
    data = {"Module.a.Linear.forward.0": {"output": [{"data_name": "a.output.0.npy"}]}}
    (tmp_path / "d").mkdir()
    tree = {"data": data, "dump_data_dir": str(tmp_path / "elsewhere")}
    (tmp_path / "d" / "dump.json").write_text(json.dumps(tree))
    assert "is missing" in refusal(tmp_path / "d")


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "cut", {"good": rand(4), "layer.7": rand(64, 64)}) / "layer.7.npy"
    whole.write_bytes(whole.read_bytes()[:500])
    assert "layer.7.npy" in refusal(tmp_path / "cut")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "b.npy").write_text("no array")
    assert "b.npy" in refusal(tmp_path / "text")
    (tmp_path / "zip").mkdir()
    (tmp_path / "zip" / "c.npz").write_bytes(b"PK\x03\x04 cut off")
    assert "c.npz" in refusal(tmp_path / "zip")


def test_objects_and_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    np.save(tmp_path / "o" / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "a.npy cannot be read: it holds Python objects" in refusal(tmp_path / "o")
    np.savez(tmp_path / "o" / "a.npz", x=np.array([{}], dtype=object))
    (tmp_path / "o" / "a.npy").unlink()
    assert "it holds Python objects" in refusal(tmp_path / "o")
    (tmp_path / "s").mkdir()
    np.save(tmp_path / "s" / "a.npy", np.array(["text"]))
    assert "not of numbers" in refusal(tmp_path / "s")


NO_DUMP = [
    "", "[]", "{", '{"data": []}', '{"data": {"a": 3}}', "[" * 10**5,
    '{"data": {"Module.a.L.forward.0": {"output": [{"Max": 1}]}}}',
    '{"data": {"Module.a.L.forward.0": {"output": [3, null]}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", NO_DUMP)
def test_a_dump_json_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dump.json").write_text(text)
    assert "dump.json" in refusal(tmp_path)


def test_an_empty_directory_and_several_ranks_are_refused(tmp_path: Path) -> None:
    assert "no .npy or .npz" in refusal(tmp_path)
    for rank in ("rank0", "rank1"):
        write_msprobe(tmp_path / rank, {"Module.z.Linear.forward.0": rand(2, 3)})
    assert "rank0, rank1" in refusal(tmp_path)


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a": rand(3)})
    np.savez(tmp_path / "more.npz", a=rand(3), b=rand(3))
    assert "two tensors are called 'a'" in refusal(tmp_path)


def test_layers_are_found_by_name_by_tensor_and_by_sanitized_forms() -> None:
    places = [
        Place("encoder.layer.0/Q", "layer", "t0"),
        Place("encoder.layer.1", "layer", "/enc/Add_output_0"),
        Place("c", "layer", "t2"),
        Place("d.e", "layer", "t3"),
    ]
    names = ["Encoder_layer_0_Q", "_enc_Add_output_0", "t2", "d_e", "d-e", "left"]
    assert sanitized("/enc/Add.output__0") == "enc_add_output_0"
    found = tensors_in_dump(places, names)
    assert found == {"t0": names[0], "/enc/Add_output_0": names[1], "t2": "t2"}  # d_e or d-e?
    assert shared_names(["a.b", "c", "x"], ["c", "a_b", "y"]) == {"a.b": "a_b", "c": "c"}


def compare(a: Path, b: Path, **asked: object) -> SideBySide:
    return compare_directories(str(a), str(b), Asked(**asked), no_progress)  # type: ignore[arg-type]


def test_two_dumps_are_compared_in_the_order_of_the_reference(tmp_path: Path) -> None:
    keys = [f"Module.{x}.Linear.forward.0" for x in ("c", "a", "b")]
    arrays = {key: rand(3, 5, seed=i) for i, key in enumerate(keys)}
    off = {key: array + rand(3, 5, seed=9, scale=0.3) * (i > 0) for i, (key, array) in
           enumerate(arrays.items())}  # fmt: skip
    found = compare(write_msprobe(tmp_path / "one", arrays), write_msprobe(tmp_path / "two", off))
    assert [x.name for x in found.points] == ["c", "a", "b"]
    assert found.verdict == "fail" and found.first_beyond is not None
    assert (found.first_beyond.point, found.first_beyond.last_good) == ("a", "c")
    a, b = (x[keys[1]].astype(np.float64) for x in (arrays, off))
    row = found.points[1]
    assert row.cosine == pytest.approx((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))
    each = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert row.cosine_min == pytest.approx(each.min())
    assert row.worst_samples[0] == f"[{each.argmin()}]"
    assert (row.samples, row.jitter_max_abs) == (3, None)
    assert compare(tmp_path / "one", tmp_path / "one").verdict == "pass"
    assert compare(tmp_path / "one", tmp_path / "two", limit=1).points[1].samples == 1


def plain_pair(directory: Path, off: Mapping[str, float]) -> tuple[Path, Path]:
    """Two directories of files; to the second one noise of some strength is added."""
    arrays = {name: rand(3, 5, seed=i) for i, name in enumerate(off)}
    noisy = {x: array + rand(3, 5, seed=9, scale=off[x]) for x, array in arrays.items()}
    return write(directory / "one", arrays), write(directory / "two", noisy)


def test_without_an_order_the_worst_place_is_named_and_none_before_it(tmp_path: Path) -> None:
    found = compare(*plain_pair(tmp_path, {"a": 0.0, "b": 0.2, "c": 0.6}))
    first = found.first_beyond
    assert first is not None and not first.ordered
    assert (first.point, first.last_good) == ("c", "")
    assert any(note.startswith("order unknown: ") for note in found.notes)
    assert {x.kind for x in found.points} == {"tensor"}
    same = compare(tmp_path / "one", tmp_path / "one")
    assert same.first_beyond is None and same.notes == ()


def test_the_order_of_a_graph_counts_for_what_it_names(tmp_path: Path) -> None:
    pair = plain_pair(tmp_path, {"a": 0.6, "b": 0.2, "c": 0.0, "d": 3.0})
    graph = [Place(x, "tensor", x, f"node_{x}", "Add", i) for i, x in enumerate(("C", "b", "a"))]
    sides = [str(x) for x in pair]
    found = compare_directories(sides[0], sides[1], Asked(), no_progress, graph)
    first = found.first_beyond
    assert [x.name for x in found.points] == ["c", "b", "a", "d"]
    assert first is not None and first.ordered
    assert (first.point, first.node, first.last_good) == ("b", "node_b", "c")
    assert any(x.startswith("order unknown of") and x.endswith(": d") for x in found.notes)
    within = compare_directories(sides[0], sides[1], Asked(), no_progress, graph[:1]).first_beyond
    assert within is not None and (within.ordered, within.point) == (False, "d")


def test_the_order_of_either_dump_json_counts(tmp_path: Path) -> None:
    one, two = {"b": rand(3, 5), "a": rand(3, 5, seed=1)}, {"b": rand(3, 5, seed=2)}
    keys = {f"Module.{x}.Linear.forward.0": (one | two)[x] for x in ("b", "a")}
    found = compare(write(tmp_path / "one", one), write_msprobe(tmp_path / "two", keys))
    assert [x.name for x in found.points] == ["b", "a"]
    assert found.first_beyond is not None and found.first_beyond.ordered


def test_a_shape_that_differs_is_itself_the_first_place(tmp_path: Path) -> None:
    keys = [f"Module.{x}.Linear.forward.0" for x in ("c", "b", "a")]
    arrays = {key: rand(3, 5, seed=i) for i, key in enumerate(keys)}
    other = arrays | {keys[1]: rand(5, 3), keys[2]: rand(3, 5, seed=8)}
    found = compare(write_msprobe(tmp_path / "one", arrays), write_msprobe(tmp_path / "two", other))
    first = found.first_beyond
    assert first is not None and (first.point, first.last_good) == ("b", "c")
    assert first.reason == "shapes differ: (5, 3), (3, 5) in the reference"


@pytest.mark.parametrize(("far", "asks"), [("b", True), ("a", False)])
def test_a_first_place_that_is_unlike_asks_for_the_inputs(
    tmp_path: Path, far: str, asks: bool
) -> None:
    keys = {x: f"Module.{x}.Linear.forward.0" for x in ("b", "a")}
    arrays = {key: rand(3, 5, seed=i) for i, key in enumerate(keys.values())}
    other = arrays | {keys[far]: -arrays[keys[far]]}
    found = compare(write_msprobe(tmp_path / "one", arrays), write_msprobe(tmp_path / "two", other))
    assert any("were the inputs of both sides the same?" in x for x in found.notes) == asks


def test_rows_of_probabilities_have_a_divergence(tmp_path: Path) -> None:
    p, q = (np.random.default_rng(i).dirichlet(np.ones(5), 4) for i in (0, 1))
    found = compare(write(tmp_path / "p", {"a": p}), write(tmp_path / "q", {"a": q}))
    assert found.points[0].kl == pytest.approx((p * np.log(p / q)).sum(1).mean(), rel=1e-5)


def test_other_shapes_and_what_matches_nothing_are_said(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"a": rand(3, 5), "b": rand(3, 4), "only": rand(2)})
    two = write(tmp_path / "two", {"a": rand(3, 5), "b": rand(4, 3), "mine": rand(2)})
    found = compare(one, two)
    row = next(x for x in found.points if x.name == "b")
    assert row.trouble == "shapes differ: (4, 3), (3, 4) in the reference" and np.isnan(row.cosine)
    assert found.verdict == "fail" and any("(4, 3)" in reason for reason in found.reasons)
    left = [x for x in found.notes if "match nothing" in x]
    assert [("only" in x, "mine" in x) for x in left] == [(True, False), (False, True)]
    write(tmp_path / "three", {"z": rand(1)})
    with pytest.raises(QuantflowError, match="QF342"):
        compare(one, tmp_path / "three")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.full((2, 3), 1e200), np.full((2, 3), -1e200)),
        (np.full((2, 3), 1e-200), np.full((2, 3), -1e-200)),
        (np.full((2, 3), 1.7e308), np.full((2, 3), -1.7e308)),
        (np.zeros((3, 0)), np.zeros((3, 0))),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (np.zeros(0), np.zeros(0)),
        (np.full((2, 3), np.nan), np.full((2, 3), np.nan)),
    ],
)
def test_opposites_of_any_size_and_what_is_empty_do_not_pass(
    tmp_path: Path, a: np.ndarray, b: np.ndarray
) -> None:
    found = compare(write(tmp_path / "one", {"a": a}), write(tmp_path / "two", {"a": b}))
    assert found.verdict == "fail" and found.reasons


def test_a_tall_dump_has_the_figures_of_its_rows(tmp_path: Path) -> None:
    # More rows than are held at once; one by one they would take minutes.
    a, b = rand(400_001, 2), rand(400_001, 2, seed=1)
    b[399_999] = np.nan
    a[7], b[7] = (1, 1), (-1, -1)
    found = compare(write(tmp_path / "one", {"a": a}), write(tmp_path / "two", {"a": b}))
    point = found.points[0]
    x, y = (np.delete(v, 399_999, axis=0).astype(np.float64) for v in (a, b))
    each = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    whole = (x * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
    assert (point.samples, point.nonfinite_apart) == (400_001, 2)
    assert point.worst_samples[0] == "[399999]"
    assert point.cosine == pytest.approx(whole)
    assert point.cosine_min == pytest.approx(-1.0)
    assert point.cosine_mean == pytest.approx((each.sum() - 1.0) / 400_001)
    assert point.max_abs_error == pytest.approx(np.abs(x - y).max())


def test_a_wide_row_is_not_held_in_float64(tmp_path: Path) -> None:
    a = np.full((1, 2**24), 2.0**-24, np.float32)  # probabilities, of which the divergence is 0
    one = write(tmp_path / "one", {"a": a})
    tracemalloc.start()
    point = compare(one, one).points[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert point.kl == pytest.approx(0.0, abs=1e-9) and peak < a.size * 8
