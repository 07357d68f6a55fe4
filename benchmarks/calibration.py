# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Ranges of the demo's model: time against plain inference and against onnxruntime's calibrator.

all-MiniLM-L6-v2, texts of Wikipedia cut to 128 tokens, batches of 8, default threads. Timed is what
stage 2 does with 64 calibration and 64 held-out texts: inference, statistics, every estimator, the
choice of `auto` and the clipping report of all candidates on both splits. Not timed on any side:
loading models, creating sessions, writing files. Each time is the least of a few, taken in turn
with what it is compared with, since other processes may use the machine.

onnxruntime's calibrator sees the same 64 texts and has 2,048 bins. Which tensors it looks at
follows from op types: asked for MatMul and Gemm, all their inputs and outputs. The second figure is
for the inputs alone that quantflow looks at, which cannot be asked for. Either is measured on the
tensors of one block; the time but for the inference is multiplied up to all of them.

One process of one thread and two of them, which torchrun starts, share the same 128 texts. Timed is
all from the moment when all processes have loaded the model until all have every range: inference,
statistics, exchange and choice. Starting Python and loading are not.

Memory is the peak of a process that calibrates on 64 texts, and of one that does on 512 (`--full`:
2,048), each text in a different order of words.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _calibrator import (
    BATCH,
    LENGTH,
    TEXTS,
    Calibrator,
    Sample,
    Texts,
    load_texts,
    prepared,
    save_texts,
)
from _harness import Figure, finish, parser, seconds
from numpy.typing import NDArray

from quantflow.config import RuntimeConfig
from quantflow.ranges.collect import Collection
from quantflow.ranges.grid import Histogram
from quantflow.ranges.kl import LINEAR_BINS, kl
from quantflow.runtime.batching import batches
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner
from quantflow.runtime.workers import ALONE, Workers, place_from_environment

REPEATS = 5
LEVELS = 255
PEER_TENSORS = slice(8, 12)
"""The tensors of one block of six, which onnxruntime's calibrator is timed on."""


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    options = parser(__doc__ or "")
    options.add_argument("--full", action="store_true", help="memory of 2,048 texts, not 512")
    options.add_argument("--peak-of", nargs=2, metavar=("N", "FOLDER"), help="used by itself")
    options.add_argument("--share-of", type=Path, metavar="FOLDER", help="used by itself")
    chosen = options.parse_args()
    if chosen.peak_of:
        print(peak_of(int(chosen.peak_of[0]), Path(chosen.peak_of[1])))
        return 0
    if chosen.share_of:
        share_of(chosen.share_of)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        model, texts = prepared(Path(directory))
        calibrator = Calibrator.of(model)
        save_texts(model, texts)
        time_figures, collection = times(calibrator, texts)
        figures = [
            *time_figures,
            *kl_figures(calibrator, collection),
            *process_figures(model),
            *memory_figures(model, 2048 if chosen.full else 512),
        ]
    return finish("Calibration of MiniLM, 128 tokens", figures, chosen.json)


def times(calibrator: Calibrator, texts: Texts) -> tuple[list[Figure], Collection]:
    """Calibration against plain inference of all texts, and against onnxruntime's calibrator."""
    plain = OnnxRuntimeRunner(calibrator.path)
    every = [sample for samples in texts.values() for sample in samples]
    calibration: Texts = {"calibration": texts["calibration"], "heldout": []}
    infer(plain, every)
    seen = calibrator.calibrate(texts)
    inference, whole, half = least_of(
        partial(infer, plain, every),
        partial(calibrator.calibrate, texts),
        partial(calibrator.calibrate, calibration),
    )
    same, asked = peer_seconds(calibrator, texts["calibration"], inference / 2)
    return [
        Figure(f"inference of {len(every)} texts, s", inference),
        Figure("calibration on them, s", whole),
        Figure("calibration / inference", whole / inference, 1.5, "at most"),
        Figure(f"calibration on {TEXTS} texts, s", half),
        Figure("onnxruntime's entropy calibrator, MatMul and Gemm, s (scaled up)", asked),
        Figure("  the same tensors as quantflow, s (scaled up)", same),
        Figure("onnxruntime / quantflow", asked / half, 20),
        Figure("  the same tensors", same / half),
    ], seen["calibration"]


def infer(runner: Runner, samples: Sequence[Sample]) -> None:
    """Plain inference, results thrown away."""
    for part in batches(samples, BATCH):
        runner.run(part.feeds)


def least_of(*work: Callable[[], object]) -> list[float]:
    """Least wall-clock seconds of each, measured in turn."""
    return np.array([[seconds(one) for one in work] for _ in range(REPEATS)]).min(axis=0).tolist()


def peer_seconds(
    calibrator: Calibrator, samples: Sequence[Sample], inference: float
) -> tuple[float, float]:
    """Seconds that onnxruntime needs for the tensors that quantflow looks at, and for its own."""
    from onnxruntime.quantization.calibrate import (  # noqa: TID251
        CalibrationMethod,
        create_calibrator,
    )

    inputs = [group.tensor for group in calibrator.record.groups]
    block = inputs[PEER_TENSORS]

    def measure(directory: str, own: bool) -> float:
        peer: Any = create_calibrator(
            calibrator.path,
            ["MatMul", "Gemm"],
            augmented_model_path=f"{directory}/augmented.onnx",
            calibrate_method=CalibrationMethod.Entropy,
            extra_options={"num_bins": LINEAR_BINS, "num_quantized_bins": LEVELS},
        )
        asked, infos = peer.select_tensors_to_calibrate(peer.model)
        everything = [name for name in tensor_order(peer.model) if name in asked]
        first, after = (everything.index(x) for x in (block[0], inputs[PEER_TENSORS.stop]))
        chosen, of = (everything[first:after], everything) if own else (block, inputs)
        peer.model.graph.output.clear()
        peer.select_tensors_to_calibrate = partial(_always, (set(chosen), infos))
        peer.augment_graph()
        peer.create_inference_session()
        feeds = iter([part.feeds for part in batches(samples, BATCH)])
        with contextlib.redirect_stdout(io.StringIO()):
            collection = seconds(lambda: peer.collect_data(Reader(feeds)))
            search = seconds(peer.compute_data)
        return inference + len(of) / len(chosen) * (max(collection - inference, 0.0) + search)

    with tempfile.TemporaryDirectory() as directory:
        return measure(directory, own=False), measure(directory, own=True)


def tensor_order(model: Any) -> list[str]:
    """Names of all values that nodes write, in graph order."""
    return [name for node in model.graph.node for name in node.output]


def _always(answer: object, _: object) -> object:
    return answer


class Reader:
    """What onnxruntime's calibrator reads data from."""

    def __init__(self, feeds: Iterator[dict[str, NDArray[Any]]]) -> None:
        self._feeds = feeds

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The next batch, or None."""
        return next(self._feeds, None)


def kl_figures(calibrator: Calibrator, collection: Collection) -> list[Figure]:
    """The search of one symmetric threshold, over all of them."""
    from onnxruntime.quantization.calibrate import HistogramCollector  # noqa: TID251

    tensor = calibrator.record.groups[PEER_TENSORS.start].tensor
    hist = collection.tensors[tensor].histogram
    peer: Any = HistogramCollector("entropy", True, LINEAR_BINS, LEVELS, 99.99, "same")
    counts, edges = linear(hist)
    bound = np.float32(hist.absmax)
    search = partial(peer.get_entropy_threshold, (counts, edges, -bound, bound, bound), LEVELS)
    own = min(seconds(partial(kl, hist, symmetric=True)) for _ in range(20))
    other = seconds(search)
    return [
        Figure("KL, one tensor, ms", 1e3 * own),
        Figure("KL of onnxruntime, ms", 1e3 * other),
        Figure("KL: onnxruntime / quantflow", other / own, 40),
    ]


def linear(hist: Histogram) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The counts over `LINEAR_BINS` equal bins, each grid bin put where its middle lies."""
    from quantflow.ranges.density import density

    found = density(hist)
    edges = np.linspace(-hist.absmax, hist.absmax, LINEAR_BINS + 1)
    counts, _ = np.histogram((found.left + found.right) / 2, edges, weights=found.mass)
    return counts.astype(np.int64), edges.astype(np.float32)


def memory_figures(model: Path, most: int) -> list[Figure]:
    """Peak memory of a few and of many texts, each measured in a process of its own."""
    few, many = (peak_in_process(count, model) for count in (TEXTS, most))
    return [
        Figure(f"peak memory, {TEXTS} texts, MiB", few),
        Figure(f"peak memory, {most} texts, MiB", many),
        Figure(f"growth from {TEXTS} to {most} texts, %", 100 * (many / few - 1), 5, "at most"),
    ]


def peak_in_process(count: int, model: Path) -> float:
    """MiB, by a process that does nothing else."""
    command = [sys.executable, __file__, "--peak-of", str(count), str(model)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def peak_of(count: int, model: Path) -> float:
    """Calibrate on `count` texts and report this process's peak memory in MiB."""
    texts, calibrator = load_texts(model)["calibration"], Calibrator.of(model)
    calibrator.calibrate({"calibration": Varied(texts, count), "heldout": Varied(texts, BATCH)})
    # Not ru_maxrss, which a process inherits from the one that starts it.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@dataclass(frozen=True)
class Varied(Sequence[Sample]):
    """Some texts over and over, the tokens in another order every time, made as they are read."""

    texts: Sequence[Sample]
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if index >= self.size:
            raise IndexError(index)
        order = np.random.default_rng(index).permutation(LENGTH)
        text = self.texts[index % len(self.texts)]
        return {name: array[order] for name, array in text.items()}


def process_figures(model: Path) -> list[Figure]:
    """The same work by one process and by two, of one thread each."""
    rounds = [[seconds_of(count, model) for count in (1, 2)] for _ in range(2)]
    one, two = np.array(rounds).min(axis=0).tolist()
    return [
        Figure("one process of one thread, s", one),
        Figure("two of them under torchrun, s", two),
        Figure("one process / two", one / two, 1.8),
    ]


def seconds_of(count: int, model: Path) -> float:
    """Seconds that some processes take together."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    command = [sys.executable, *(launch if count > 1 else []), __file__, "--share-of", str(model)]
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **single}
    )
    return float(done.stdout)


def share_of(model: Path) -> None:
    """Do this process's share of a calibration; the leader prints how long all of them took."""
    place = place_from_environment()
    if place.count == 1:
        print(shared_seconds(model, ALONE))
        return
    from quantflow.runtime.distributed import join

    workers = join(place)
    workers.connect("cpu")
    least = shared_seconds(model, workers)
    if place.rank:
        workers.next_order()  # which is to end
        workers.leave()
    else:
        print(least)
        workers.dismiss(0)


def shared_seconds(model: Path, workers: Workers) -> float:
    """Least seconds from the moment when all workers have come until all are done."""
    calibrator, texts = Calibrator.of(model, RuntimeConfig(threads=1)), load_texts(model)

    def work() -> None:
        workers.exchange(b"")
        calibrator.calibrate(texts, workers)
        workers.exchange(b"")

    return min(seconds(work) for _ in range(3))


if __name__ == "__main__":
    sys.exit(main())
