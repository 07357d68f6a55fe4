"""Memory, streaming and batches: what calibration keeps, and what it must not depend on."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from tests.cases.drawn import drawn
from tests.graph.models import build, rand
from tests.sensitivity.projects import run_one, run_until, write_project

MEGABYTE = 2**20

STREAM = """
import json, resource
import numpy as np
from quantflow.ranges.collect import collect
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from tests.graph.models import build, rand

LAYERS, ROWS, WIDTH, BATCH, BATCHES = 12, 8192, 32, 8, 64
body = "t0 = Tanh(x) " + " ".join(
    f"m{i} = MatMul(t{i - 1}, w{i}) t{i} = Tanh(m{i})" for i in range(1, LAYERS + 1)
)
names = [f"t{i}" for i in range(LAYERS)]
outputs = ", ".join(f"float[b,{ROWS},{WIDTH}] {name}" for name in names)
weights = {f"w{i}": rand(WIDTH, WIDTH, seed=i, scale=0.2) for i in range(1, LAYERS + 1)}
model = build(f"(float[b,{ROWS},{WIDTH}] x) => ({outputs}) {{ {body} }}", weights)
count, peaks = BATCH * BATCHES, {}
template = np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32)


def samples():
    for i in range(count):
        yield {"x": template * np.float32(1 + i % 7)}


def note(_, done, total):
    peaks[done // BATCH] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


ids = [str(i) for i in range(count)]
found = collect(
    OnnxRuntimeRunner(model.SerializeToString()), samples(), ids=ids, digests=ids, tensors=names,
    padding={}, mask_name=None, batch=BATCH, progress=note,
)
counts = {found.tensors[name].histogram.count for name in names}
print(json.dumps({"peaks": peaks, "counts": sorted(counts)}))
"""


def test_peak_memory_does_not_grow_with_the_number_of_batches() -> None:
    # C1: 12 chained MatMuls with Tanh, 64 batches of 8 MB; whoever keeps activations keeps 6 GB.
    done = subprocess.run(
        [sys.executable, "-c", STREAM], capture_output=True, check=True, text=True, timeout=300
    )
    seen = json.loads(done.stdout)
    assert seen["counts"] == [64 * 8 * MEGABYTE // 4]
    peaks = {int(batch): peak for batch, peak in seen["peaks"].items()}
    # One batch of one tensor is 8 MB; keys of rows are cached for 256 samples, 64 KB each.
    assert peaks[64] - peaks[8] < 40 * MEGABYTE


def wide_head(directory: Path) -> Path:
    """A model whose logits are 32,000 wide and read by nothing."""
    model = build(
        "(float[batch,8] x) => (float[batch,32000] logits) "
        "{ h = MatMul(x, w0) t = Tanh(h) logits = MatMul(t, w1) }",
        {"w0": rand(8, 8), "w1": rand(8, 32000, seed=1)},
        opset=17,
    )
    return write_project(directory, model, {"x": rand(40, 8, seed=2)}, {"batch": 2})


def test_logits_that_nobody_calibrates_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C3
    config = wide_head(tmp_path)
    run_until("10_set", config)
    read_by_layers, logits = 0, list[weakref.ref[Any]]()
    real = OnnxRuntimeRunner.run

    def watching(self: OnnxRuntimeRunner, feeds: Any) -> Any:
        nonlocal read_by_layers
        assert all(array() is None for array in logits)
        values = real(self, feeds)
        if "logits" in values:  # fp16 is judged by every value, a batch of 16 samples at a time
            logits.append(weakref.ref(values["logits"]))
        else:
            read_by_layers = max(read_by_layers, *(np.size(value) for value in values.values()))
        return values

    monkeypatch.setattr(OnnxRuntimeRunner, "run", watching)
    run_one("20_ranges", config)
    assert 0 < read_by_layers < 32000  # the tensors that are read by the two layers are 8 wide
    assert 0 < len(logits) <= 16


def tanh_chain(directory: Path, parts: int) -> Path:
    """Three layers, and 40 candidates in files of `parts` samples each."""
    model = build(
        "(float[batch,16] x) => (float[batch,8] y) "
        "{ a = MatMul(x, w0) b = Tanh(a) c = MatMul(b, w1) d = Tanh(c) y = MatMul(d, w2) }",
        {"w0": rand(16, 32), "w1": rand(32, 32, seed=1), "w2": rand(32, 8, seed=2)},
        opset=17,
    )
    candidates = rand(40, 16, seed=3)
    config = write_project(directory, model, {"x": candidates}, {"batch": 2})
    (directory / "candidates.npz").unlink()
    for start in range(0, len(candidates), parts):
        np.savez(directory / f"part{start:03}.npz", x=candidates[start : start + parts])
    text = config.read_text().replace("candidates.npz", "part*.npz")
    config.write_text(text.replace('estimator = "minmax"', 'estimator = "auto"'))
    return config


def test_sources_in_batches_of_1_3_and_8_give_the_same_ranges(tmp_path: Path) -> None:
    # C5: bit for bit, histograms included.
    results = list[list[bytes]]()
    for parts in (1, 3, 8):
        run_until("20_ranges", tanh_chain(tmp_path / str(parts), parts))
        folder = tmp_path / str(parts) / "run" / "20_ranges"
        names = ("ranges.json", "histograms.safetensors", "coverage.json")
        results.append([(folder / name).read_bytes() for name in names])
    assert results[0] == results[1] == results[2]
    ranges = RangesRecord.read(tmp_path / "1" / "run" / "20_ranges" / "ranges.json").ranges
    assert len(ranges) == 3 and all(entry.low < 0 < entry.high for entry in ranges)


LENGTHS_SOURCE = """
import numpy as np

def records():
    with open("calls.txt", "a") as log:
        log.write("called\\n")
    rng = np.random.default_rng(7)
    for number in range(40):
        length = (32, 17)[number % 2]
        real = length - 5 * (number % 3)
        x = rng.standard_normal((length, 8)).astype(np.float32)
        x[real:] = 1e6
        yield {"x": x, "attention_mask": (np.arange(length) < real).astype(np.int64)}
"""


def test_lengths_of_32_and_17_run_through_and_padding_counts_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C6, C7 and C27: a generator that stage 1 uses up; padding of 1e6 would ruin every range.
    monkeypatch.chdir(tmp_path)
    model = build(
        "(float[batch,length,8] x, int64[batch,length] attention_mask) => "
        "(float[batch,length,4] y) { h = MatMul(x, w0) t = Tanh(h) "
        "m = Cast<to=1>(attention_mask) n = Unsqueeze(m, last) k = Mul(t, n) y = MatMul(k, w1) }",
        {"w0": rand(8, 8), "w1": rand(8, 4, seed=1), "last": np.array([-1])},
        opset=17,
    )
    config = write_project(tmp_path, model, {}, {"batch": 2, "length": 32})
    (tmp_path / "varying.py").write_text(LENGTHS_SOURCE)
    source = 'kind = "function"\nfunction = "varying:records"'
    config.write_text(config.read_text().replace('kind = "npz"\npath = "candidates.npz"', source))
    run_until("10_set", config)
    calls = (tmp_path / "calls.txt").read_text()
    run_until("45_compare", config)
    assert (tmp_path / "calls.txt").read_text() == calls
    ranges = RangesRecord.read(tmp_path / "run" / "20_ranges" / "ranges.json")

    namespace = dict[str, Any]()
    exec(LENGTHS_SOURCE, namespace)
    records = list(namespace["records"]())
    samples = [records[number] for number in drawn(tmp_path)]
    assert {len(sample["x"]) for sample in samples} == {32, 17}
    real = np.concatenate([sample["x"][sample["attention_mask"] == 1] for sample in samples])
    found = ranges.of("x")
    assert (found.low, found.high) == (real.min(), real.max())


def test_a_set_that_is_mapped_piece_by_piece_reads_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C1: what was read through a mapping counts as memory until the mapping is closed.
    run_until("10_set", tanh_chain(tmp_path, 8))
    candidates = rand(40, 16, seed=3)
    samples = SampleSet(tmp_path / "run" / "10_set" / "calibration")
    for limit in (1, 100, 2**30):  # a sample has 64 bytes
        monkeypatch.setattr("quantflow.artifacts.sample_set._MAPPED_BYTES", limit)
        found = [sample["x"] for sample in samples]
        assert len(found) == len(samples) == 12
        assert {row.tobytes() for row in found} <= {row.tobytes() for row in candidates}
        assert len({row.tobytes() for row in found}) == 12
