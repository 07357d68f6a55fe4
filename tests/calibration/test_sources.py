"""Every kind of source gives its records in order, and says what is wrong with a bad one."""

from __future__ import annotations

import csv
import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from quantflow.calibration.sources import first_records, read_records, source_digest
from quantflow.config import SourceConfig
from quantflow.errors import QuantflowError

ROWS = [{"text": "one"}, {"text": "two, with a comma"}, {"text": "None"}]


def _write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _read(kind: str, path: Path | str, base: Path) -> list[dict[str, Any]]:
    records = read_records(SourceConfig.model_validate({"kind": kind, "path": str(path)}), base)
    assert len(records) == sum(1 for _ in records)
    return [dict(records[index]) for index in range(len(records))]


def _problem(base: Path, **source: str) -> tuple[str, str]:
    with pytest.raises(QuantflowError) as caught:
        read_records(SourceConfig.model_validate(source), base)
    return caught.value.problems[0].code, str(caught.value)


def test_jsonl_skips_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two, with a comma"}\n')
    assert _read("jsonl", "a.jsonl", tmp_path) == ROWS[:2]


def test_csv_keeps_words_that_look_like_missing_values(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["text"])
        writer.writeheader()
        writer.writerows(ROWS)
    assert _read("csv", "a.csv", tmp_path) == ROWS


def test_parquet_and_a_saved_dataset(tmp_path: Path) -> None:
    table = datasets.Dataset.from_list(ROWS)
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "saved")
    before = sorted(tmp_path.rglob("*"))
    assert _read("parquet", "a.parquet", tmp_path) == ROWS
    assert _read("dataset", "saved", tmp_path) == ROWS
    assert sorted(tmp_path.rglob("*")) == before


def test_text_is_one_record_a_line_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("eins\n\n  \nzwei größer\n", encoding="utf-8")
    assert _read("text", "a.txt", tmp_path) == [{"text": "eins"}, {"text": "zwei größer"}]


def test_a_glob_reads_files_in_order_even_in_a_directory_with_brackets(tmp_path: Path) -> None:
    folder = tmp_path / "with [brackets] and space"
    folder.mkdir()
    for name in ("b", "a", "c"):
        _write_jsonl(folder / f"{name}.jsonl", [{"text": name}])
    rows = _read("jsonl", "with [brackets] and space/*.jsonl", tmp_path)
    assert [row["text"] for row in rows] == ["a", "b", "c"]


def test_imagefolder_reads_every_picture_whatever_the_folders_are_called(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "README.txt").write_text("not a picture")
    for value, name in enumerate(["train/cat/1.png", "test/dog/1.png", "test/dog/2.png"]):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 5, 3), value, np.uint8)).save(path)
    rows = _read("imagefolder", "images", tmp_path)
    assert [int(np.asarray(row["image"])[0, 0, 0]) for row in rows] == [1, 2, 0]
    assert [row["label"] for row in rows] == ["dog", "dog", "cat"]


def test_npz_holds_records_along_the_first_axis(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([5, 6, 7]))
    rows = _read("npz", "a.npz", tmp_path)
    assert [row["y"] for row in rows] == [5, 6, 7]
    np.testing.assert_array_equal(np.stack([row["x"] for row in rows]), x)


def test_function_may_give_a_generator_or_a_lazy_sequence(tmp_path: Path) -> None:
    (tmp_path / "qf_rows.py").write_text(
        "from collections.abc import Sequence\n"
        "def generator():\n    yield {'text': 'a'}\n    yield {'text': 'b'}\n"
        "class Lazy(Sequence):\n"
        "    def __len__(self): return 2\n"
        "    def __getitem__(self, i):\n"
        "        if isinstance(i, slice): return [self[j] for j in range(*i.indices(2))]\n"
        "        if i > 1: raise IndexError\n"
        "        return {'text': 'ab'[i]}\n"
        "def lazy(): return Lazy()\n"
    )
    for name in ("generator", "lazy"):
        source = SourceConfig(kind="function", function=f"qf_rows:{name}")
        assert list(read_records(source, tmp_path)) == [{"text": "a"}, {"text": "b"}]


def test_lines_of_text_are_in_the_column_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\neins\n \nzwei\ndrei\n")
    source = SourceConfig(kind="text", path="a.txt")
    assert list(read_records(source, tmp_path, "body"))[:2] == [{"body": "eins"}, {"body": "zwei"}]
    assert first_records(source, tmp_path, 2, "body") == [{"body": "eins"}, {"body": "zwei"}]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "dataset", "text", "npz"])
def test_the_first_records_are_those_that_a_run_reads(tmp_path: Path, kind: str) -> None:
    table = datasets.Dataset.from_list(ROWS)
    _write_jsonl(tmp_path / "a.jsonl", ROWS)
    table.to_csv(tmp_path / "a.csv")
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "a.dataset")
    (tmp_path / "a.text").write_text("\n".join(row["text"] for row in ROWS))
    np.savez(tmp_path / "a.npz", text=np.array([row["text"] for row in ROWS]))
    source = SourceConfig.model_validate({"kind": kind, "path": f"a.{kind}"})
    whole = read_records(source, tmp_path)
    assert first_records(source, tmp_path, 2) == [whole[0], whole[1]]
    assert len(first_records(source, tmp_path, 9)) == 3


def test_the_first_records_leave_the_rest_unread(tmp_path: Path) -> None:
    (tmp_path / "qf_endless.py").write_text(
        "from itertools import count\ndef rows():\n    yield from ({'i': i} for i in count())\n"
    )
    source = SourceConfig(kind="function", function="qf_endless:rows")
    assert first_records(source, tmp_path, 2) == [{"i": 0}, {"i": 1}]


def test_the_first_records_of_a_damaged_file_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "a.csv").write_text("text\n")
    for kind, code in (("jsonl", "QF302"), ("csv", "QF301")):
        source = SourceConfig.model_validate({"kind": kind, "path": f"a.{kind}"})
        with pytest.raises(QuantflowError) as caught:
            first_records(source, tmp_path, 2)
        assert caught.value.problems[0].code == code


def test_records_outlive_the_temporary_files_and_leave_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # others use the usual one, too
    _write_jsonl(tmp_path / "a.jsonl", ROWS)
    before = set(Path(tempfile.gettempdir()).glob("quantflow-records-*"))
    records = read_records(SourceConfig(kind="jsonl", path="a.jsonl"), tmp_path)
    part = records[1:]
    del records
    gc.collect()
    assert [row["text"] for row in part] == ["two, with a comma", "None"]
    assert set(Path(tempfile.gettempdir()).glob("quantflow-records-*")) <= before


def test_a_changed_file_of_the_same_size_is_read_anew(tmp_path: Path) -> None:
    _write_jsonl(tmp_path / "a.jsonl", [{"text": "old"}])
    assert _read("jsonl", "a.jsonl", tmp_path) == [{"text": "old"}]
    _write_jsonl(tmp_path / "a.jsonl", [{"text": "new"}])
    assert _read("jsonl", "a.jsonl", tmp_path) == [{"text": "new"}]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "text", "parquet"])
def test_an_empty_file_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").touch()
    assert _problem(tmp_path, kind=kind, path="empty")[0] == "QF301"


def test_a_source_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "head.csv").write_text("text\n")
    (tmp_path / "images").mkdir()
    np.savez(tmp_path / "a.npz", x=np.zeros((0, 3)))
    assert _problem(tmp_path, kind="text", path="blank.txt")[0] == "QF301"
    assert _problem(tmp_path, kind="csv", path="head.csv")[0] == "QF301"
    assert _problem(tmp_path, kind="imagefolder", path="images")[0] == "QF301"
    assert _problem(tmp_path, kind="npz", path="a.npz")[0] == "QF301"


@pytest.mark.parametrize(
    ("content", "line"),
    [('{"a": 1}\n\n{"a": bad}\n', "line 3"), ('{"a": 1}\n[1, 2]\n', "line 2")],
)
def test_the_line_of_malformed_json_is_named(tmp_path: Path, content: str, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    code, text = _problem(tmp_path, kind="jsonl", path="a.jsonl")
    assert code == "QF302"
    assert f"a.jsonl, {line}" in text


def test_damaged_files_are_refused_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nx\na,b,c\n")
    (tmp_path / "a.txt").write_bytes(b"abc\xff\n")
    (tmp_path / "a.parquet").write_text("not parquet")
    (tmp_path / "a.npz").write_text("not a zip")
    for kind in ("csv", "text", "parquet", "npz"):
        name = "a.txt" if kind == "text" else f"a.{kind}"
        code, text = _problem(tmp_path, kind=kind, path=name)
        assert code == "QF302"
        assert name in text


def test_a_damaged_picture_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"not a picture")
    records = read_records(SourceConfig(kind="imagefolder", path="images"), tmp_path)
    with pytest.raises(QuantflowError, match="QF302"):
        records[0]


def test_pickled_arrays_are_refused_without_being_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}, None], dtype=object))
    code, text = _problem(tmp_path, kind="npz", path="a.npz")
    assert code == "QF302"
    assert "pickle" in text


def test_npz_arrays_need_one_number_of_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "uneven.npz", x=np.zeros((3, 2)), y=np.zeros(2))
    np.savez(tmp_path / "scalar.npz", x=np.float32(1))
    np.save(tmp_path / "single.npy", np.zeros(3))
    assert "axis 0" in _problem(tmp_path, kind="npz", path="uneven.npz")[1]
    assert "axis 0" in _problem(tmp_path, kind="npz", path="scalar.npz")[1]
    assert "single array" in _problem(tmp_path, kind="npz", path="single.npy")[1]


def test_a_dataset_with_splits_asks_for_one(tmp_path: Path) -> None:
    table = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"train": table}).save_to_disk(tmp_path / "saved")
    (tmp_path / "other").mkdir()
    assert "path/SPLIT" in _problem(tmp_path, kind="dataset", path="saved")[1]
    assert _read("dataset", "saved/train", tmp_path) == ROWS
    assert _problem(tmp_path, kind="dataset", path="other")[0] == "QF302"


def test_missing_paths_and_wrong_kinds_of_paths(tmp_path: Path) -> None:
    assert _problem(tmp_path, kind="jsonl", path="absent.jsonl")[0] == "QF104"
    assert _problem(tmp_path, kind="jsonl", path="*.jsonl")[0] == "QF104"
    assert "needs a file" in _problem(tmp_path, kind="jsonl", path=".")[1]
    (tmp_path / "a.txt").write_text("a")
    assert "needs a directory" in _problem(tmp_path, kind="imagefolder", path="a.txt")[1]


def test_functions_that_fail_are_named(tmp_path: Path) -> None:
    (tmp_path / "qf_bad.py").write_text(
        "def raises():\n    yield {'a': 1}\n    raise KeyError('b')\n"
        "def empty(): return []\ndef number(): return 3\ndef strings(): return ['a', 'b']\n"
        "def exits(): raise SystemExit(0)\n"
    )
    names = {"raises": "304", "empty": "301", "number": "304", "strings": "304", "exits": "304"}
    for name, code in names.items():
        found, text = _problem(tmp_path, kind="function", function=f"qf_bad:{name}")
        assert found == f"QF{code}"
        assert f"qf_bad:{name}" in text


def test_the_digest_follows_content_and_not_time_or_place(tmp_path: Path) -> None:
    def digest(folder: str) -> str:
        return source_digest(SourceConfig(kind="jsonl", path="a.jsonl"), tmp_path / folder)

    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        _write_jsonl(tmp_path / folder / "a.jsonl", ROWS)
    assert digest("x") == digest("y")
    _write_jsonl(tmp_path / "y" / "a.jsonl", [*ROWS[:2], {"text": "nOne"}])
    assert digest("x") != digest("y")


def test_the_digest_of_a_function_is_that_of_its_module(tmp_path: Path) -> None:
    source = SourceConfig(kind="function", function="qf_digest:rows")
    module = tmp_path / "qf_digest.py"
    module.write_text("def rows(): return [{'a': 1}]\n")
    before = source_digest(source, tmp_path)
    assert source_digest(source, tmp_path) == before
    module.write_text("def rows(): return [{'a': 2}]\n")
    assert source_digest(source, tmp_path) != before


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(_TEXT, min_size=1, max_size=8))
def test_jsonl_gives_back_any_text(tmp_path: Path, texts: list[str]) -> None:
    rows = [{"text": text} for text in texts]
    _write_jsonl(tmp_path / "any.jsonl", rows)
    assert _read("jsonl", "any.jsonl", tmp_path) == rows
