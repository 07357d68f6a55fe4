"""Sets of samples on disk: ragged, empty, read twice, damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.sample_set import (
    SampleInfo,
    SampleSet,
    SetRecord,
    sample_digest,
    write_set,
)
from quantflow.errors import QuantflowError


def record(samples: list[dict[str, Any]]) -> SetRecord:
    return SetRecord(
        name="calibration",
        source="test",
        inputs={name: str(array.dtype) for name, array in samples[0].items()} if samples else {},
        samples=tuple(
            SampleInfo(id=f"c[{i}]", digest=sample_digest(s)) for i, s in enumerate(samples)
        ),
        padding_fraction=None,
        duplicates=0,
    )


def written(folder: Path, samples: list[dict[str, Any]]) -> SampleSet:
    write_set(folder, record(samples), samples)
    return SampleSet(folder)


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert set(a) == set(b)
        for name in b:
            assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape
            assert np.array_equal(a[name], b[name])


def ragged() -> list[dict[str, Any]]:
    # C6: lengths 32, then 17.
    return [
        {"ids": np.arange(n, dtype=np.int64), "x": np.full((n, 2), n, np.float32)} for n in (32, 17)
    ]


def test_samples_of_different_lengths_read_back_equal(tmp_path: Path) -> None:
    assert_same(list(written(tmp_path, ragged())), ragged())


def test_a_set_can_be_read_again_and_again(tmp_path: Path) -> None:
    # C7: one stage's reading leaves the next with nothing.
    samples = written(tmp_path, ragged())
    assert_same(list(samples), ragged())
    assert_same(list(samples), ragged())
    first, second = iter(samples), iter(samples)
    assert_same([next(first), next(second), next(first)], [ragged()[i] for i in (0, 0, 1)])
    assert_same(list(samples.first(1)), ragged()[:1])
    assert_same(list(samples), ragged())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "bool"])
def test_every_input_type_reads_back_equal(tmp_path: Path, dtype: str) -> None:
    sample = {"x": np.array([[0, 1], [1, 0]]).astype(dtype)}
    assert_same(list(written(tmp_path, [sample])), [sample])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
def test_scalars_and_empty_arrays_keep_their_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    sample = {"x": np.ones(shape, np.float32)}
    assert_same(list(written(tmp_path, [sample])), [sample])


def test_views_and_transposes_are_written_as_they_read(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    samples = [{"x": base.T}, {"x": base[:, ::2]}, {"x": base[::-1]}]
    assert_same(list(written(tmp_path, samples)), [{"x": s["x"].copy()} for s in samples])


def test_values_that_are_not_finite_read_back_bit_for_bit(tmp_path: Path) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    (sample,) = written(tmp_path, [{"x": x}])
    assert np.array_equal(sample["x"].view(np.uint32), x.view(np.uint32))


def test_an_empty_set_has_no_samples(tmp_path: Path) -> None:
    samples = written(tmp_path, [])
    assert len(samples) == 0 and list(samples) == [] and samples.ids == []


def test_names_with_slashes_and_many_samples_keep_their_order(tmp_path: Path) -> None:
    samples = [{"a/b": np.float32([i]), "0/a": np.float32([-i])} for i in range(12)]
    assert_same(list(written(tmp_path, samples)), samples)


def test_the_files_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written(tmp_path / name, ragged())
    for file in ("set.json", "samples.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_one_entry_for_every_sample(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one record entry"):
        write_set(tmp_path, record(ragged()), ragged()[:1])


def test_the_digest_tells_values_shapes_types_and_names_apart() -> None:
    x = np.zeros(4, np.float32)
    samples: list[dict[str, Any]] = [
        {"x": x},
        {"y": x},
        {"x": x.reshape(2, 2)},
        {"x": x.astype(np.int32)},
        {"x": x + 1},
        {"x": x[:1].reshape(())},
        {"x": x[:1]},
        {"x": x, "y": x},
    ]
    assert len({sample_digest(s) for s in samples}) == len(samples)
    a = {"x": x, "y": x + 1}
    assert sample_digest(a) == sample_digest(dict(reversed(a.items())))
    assert sample_digest({"x": np.arange(6).reshape(2, 3).T}) == sample_digest(
        {"x": np.ascontiguousarray(np.arange(6).reshape(2, 3).T)}
    )


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "garbage", "header", "other"])
def test_damaged_samples_are_said(tmp_path: Path, damage: str) -> None:
    samples = written(tmp_path, ragged())
    path = tmp_path / "samples.safetensors"
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        write_set(tmp_path / "o", record(ragged()[:1]), ragged()[:1])
        path.write_bytes((tmp_path / "o" / "samples.safetensors").read_bytes())
    else:
        path.write_bytes(
            {
                "empty": b"",
                "truncated": data[:-5],
                "garbage": b"\xff" * len(data),
                "header": b"\xff" * 8 + data[8:],
            }[damage]
        )
    with pytest.raises(QuantflowError) as caught:
        list(samples)
    (problem,) = caught.value.problems
    assert problem.code == "QF403" and problem.where == str(path) and "build-set" in problem.fix


def test_a_damaged_record_of_a_set_is_said(tmp_path: Path) -> None:
    written(tmp_path, ragged())
    (tmp_path / "set.json").write_text("{")
    with pytest.raises(QuantflowError, match="QF402"):
        SampleSet(tmp_path)


def test_a_set_is_read_sample_by_sample(tmp_path: Path) -> None:
    # The set may be larger than memory: reading one sample allocates one sample.
    import tracemalloc

    big = [{"x": np.full(2**18, i, np.float32)} for i in range(16)]
    samples = written(tmp_path, big)
    del big
    tracemalloc.start()
    for sample in samples:
        assert sample["x"].nbytes == 2**20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20
