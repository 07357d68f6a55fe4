"""Any two sides on the same samples, layer by layer: what `quantflow compare A B` finds."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.om_run import Latency, ProbeAnswer
from quantflow.artifacts.record import Record, Verdict

SideKind = Literal[
    "fp32", "fp16", "fp16_plain", "int8", "qdq", "float", "dump", "om_int8", "om_fp16", "om"
]
"""What a side is: a precision of the run, an ONNX file (`int8` in Ascend's dialect, `qdq`, or
`float`), a directory of dumped tensors, or an .om file (of the run, or any other)."""

PlaceKind = Literal["layer", "block", "output", "tensor"]
"""A layer's output, a value at a block's boundary, an output of the model, or any other value."""


class SideInfo(Record):
    """One side.

    Attributes:
        name: as it was given.
        kind: what it is.
        ran_on: the device that a runner reports; empty where onnxruntime ran it here, or nothing
            did.
    """

    name: str
    kind: SideKind
    ran_on: str = ""


class Limits(Record):
    """What was asked of the pair.

    Attributes:
        layer_cosine: least cosine of a layer over all samples. The relative error may be as large
            as it is for two vectors of equal length with this cosine.
        layers_decide: whether a layer beyond fails the comparison, or is only marked.
        output_cosine: least mean cosine of an output.
        output_error: greatest error of an output, relative to the reference's absmax; None where
            nothing is asked.
        source: where the numbers come from.
    """

    layer_cosine: float
    layers_decide: bool
    output_cosine: float
    output_error: float | None
    source: str


class Point(Record):
    """One tensor on both sides, padding excluded.

    Figures are NaN where the tensor could not be compared. Values that are not finite enter none
    but the counts.

    Attributes:
        name: of the layer or output; of a block's boundary, the tensor's.
        kind: what it is; of two dumps, a mere tensor.
        tensor: name of the value.
        node: that computes it in the float model, or empty.
        samples: that were compared; of two dumps, entries along the first axis.
        cosine: over all samples as one vector.
        cosine_mean, cosine_min: over the samples' own.
        max_abs_error, mean_abs_error: over all elements.
        relative_error: Euclidean norm of the error over the reference's.
        reference_absmax: largest magnitude of the reference.
        kl: mean divergence of rows in nats, where they are probabilities or logits; else None.
        nonfinite_reference, nonfinite_other: NaN and Inf on either side.
        nonfinite_apart: positions with a NaN, or an Inf that the other side has not.
        jitter_max_abs, jitter_cosine: largest difference, and largest distance of the cosine from
            1, of one side that was run twice; None where nothing was.
        worst_samples: ids, at most five, worst first.
        beyond: in what it is beyond its threshold, or empty.
        trouble: why it could not be compared, or empty.
    """

    name: str
    kind: PlaceKind
    tensor: str
    node: str = ""
    samples: int = 0
    cosine: float = float("nan")
    cosine_mean: float = float("nan")
    cosine_min: float = float("nan")
    max_abs_error: float = float("nan")
    mean_abs_error: float = float("nan")
    relative_error: float = float("nan")
    reference_absmax: float = float("nan")
    kl: float | None = None
    nonfinite_reference: int = 0
    nonfinite_other: int = 0
    nonfinite_apart: int = 0
    jitter_max_abs: float | None = None
    jitter_cosine: float | None = None
    worst_samples: tuple[str, ...] = ()
    beyond: str = ""
    trouble: str = ""


class OwnError(Record):
    """A layer given the reference's input, so that only its own fault counts.

    Attributes:
        layer: name.
        cosine, relative_error: of its output, padding excluded.
        beyond: in what it is beyond the threshold of layers, or empty.
    """

    layer: str
    cosine: float
    relative_error: float
    beyond: str = ""


class FirstBeyond(Record):
    """The first place beyond its threshold, or that cannot be compared, in graph order.

    Attributes:
        point: name of the first point beyond.
        ordered: whether the order of computation is known; where it is not, this is the worst
            place, and nothing is said of what comes before it.
        tensor: the first tensor beyond inside the block of that point.
        node, op_type, module: what computes the tensor; empty for dumps.
        block: number of the block, from 0; None where the order of blocks is not known.
        last_good: the tensor compared right before it, which is within its threshold, or empty.
        reason: in what it is beyond, or why it cannot be compared.
        culprit: whether it is the layer's own fault or that of what comes before; empty where that
            was not measured.
        own: the layers of the block alone, those that do most harm first.
    """

    point: str
    ordered: bool = True
    tensor: str
    node: str = ""
    op_type: str = ""
    module: str = ""
    block: int | None = None
    last_good: str = ""
    reason: str
    culprit: str = ""
    own: tuple[OwnError, ...] = ()


class SideBySide(Record):
    """What `quantflow compare A B` finds.

    Attributes:
        reference, other: the sides.
        bucket: that was run; empty for two dumps.
        samples: number of samples; of two dumps, the most entries along a first axis.
        limits: what was asked.
        points: in graph order; of two dumps in that of dump.json, then in that of the run's graph,
            and by name where neither tells.
        first_beyond: where the error starts; None when nothing is beyond.
        verdict: pass or fail.
        reasons: one sentence for everything that failed.
        notes: what was not compared, and what is marked only.
        latency: of the .om files; None where none ran.
        probes: what the chip answered; empty where none ran.
    """

    reference: SideInfo
    other: SideInfo
    bucket: str
    samples: int
    limits: Limits
    points: tuple[Point, ...]
    first_beyond: FirstBeyond | None = None
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    latency: Latency | None = None
    probes: tuple[ProbeAnswer, ...] = ()
