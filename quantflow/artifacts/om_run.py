"""What was found by running .om files on an NPU; made nowhere else."""

from __future__ import annotations

from quantflow.artifacts.record import Record


class ProbeAnswer(Record):
    """What a chip does in a case that could only be assumed where nothing runs on it.

    Attributes:
        name: of the probe.
        question: that it asks.
        answer: the hypothesis that the chip's output confirms; empty: none of them.
        assumed: what the figures of this run rely on, or would.
        relied_on: whether they do.
        meaning: what follows from another answer than the assumed one, and what to set; else empty.
    """

    name: str
    question: str
    answer: str
    assumed: str
    relied_on: bool
    meaning: str = ""


class SideTimes(Record):
    """How long a model takes.

    Attributes:
        side: name of the side.
        median_ms, p10_ms, p90_ms: of one execution, in milliseconds, copies left out.
    """

    side: str
    median_ms: float
    p10_ms: float
    p90_ms: float


class Latency(Record):
    """Executions of one model, or of two that took turns.

    Attributes:
        device: what the runner reports that it was measured on.
        batch: samples of an execution.
        warm_up: executions of each that do not count.
        rounds: executions of each that do.
        sides: of each model, the reference first.
        ratio: median of the other over that of the reference, below 1 where it is faster; None of
            one model.
        ratio_low, ratio_high: 95% bootstrap interval over rounds.
    """

    device: str
    batch: int
    warm_up: int
    rounds: int
    sides: tuple[SideTimes, ...]
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
