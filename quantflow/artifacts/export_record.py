"""What stage 4 writes about the files it made."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record, Verdict
from quantflow.config import Granularity


class LayerFactors(Record):
    """How one layer stands in the deploy model.

    Attributes:
        layer, group: names.
        precision: what it runs in.
        reason: why it is not INT8, or empty.
        scale_d: activation scale; None unless INT8.
        offset_d: activation zero point; None unless INT8.
        scale_w: weight scales, one or one per output channel; empty unless INT8. Without a weight
            it is the scale of the other activation, or 1 for an AveragePool.
        weight_granularity: what was asked for; None unless INT8 with a weight.
    """

    layer: str
    group: str
    precision: Literal["int8", "fp16", "fp32"]
    reason: str = ""
    scale_d: float | None = None
    offset_d: int | None = None
    scale_w: tuple[float, ...] = ()
    weight_granularity: Granularity | None = None


class FloatNode(Record):
    """A node with weights that is no layer of the record, and so is not chosen a precision for.

    Attributes:
        node, op_type: which.
        reason: why it stays float.
    """

    node: str
    op_type: str
    reason: str


class BucketFiles(Record):
    """The files of one bucket, named relative to `40_onnx`.

    Attributes:
        name: such as ``batch1_length128``.
        dims: value of every free dimension.
        input_shapes: static shape of every input.
        deploy: INT8 model in Ascend's dialect, for atc.
        float_twin: the same graph in float32, for an fp16 conversion to compare with.
        qdq: the QDQ twin, for onnxruntime.
        keep_dtype: atc's --keep_dtype file for the fp32 islands, or None without islands.
        customize_dtypes: atc's --customize_dtypes file, to give it in place of that one, or None.
        unkept_islands: islands without a name that atc knows, which no file can keep in fp32.
        op_types: number of nodes of every op type in the deploy model.
    """

    name: str
    dims: dict[str, int]
    input_shapes: dict[str, tuple[int, ...]]
    deploy: str
    float_twin: str
    qdq: str
    keep_dtype: str | None
    customize_dtypes: str | None = None
    unkept_islands: tuple[str, ...] = ()
    op_types: dict[str, int]


class ExportRecord(Record):
    """`40_onnx/export.json`.

    Attributes:
        opset: of the deploy model.
        int8_mac_fraction: share of the layers' multiply-accumulates that run in INT8, 0-1; those of
            `float_nodes` are not counted.
        boundaries: number of AscendQuant nodes plus AscendDequant nodes in the first bucket.
        layers: in graph order.
        buckets: in the order of the configuration.
        amct_record: name of the AMCT record file.
        chip: what the model was made for; empty where it is not known.
        float_nodes: what stays float beside the layers, such as a MatMul in a branch of an If.
        modify_mixlist: name of a file for that option of atc, or None without islands.
        op_precision_mode: name of a file for that option of atc, or None.
        precision_notes: what a person who names these two must know.
    """

    opset: int
    int8_mac_fraction: float
    boundaries: int
    layers: tuple[LayerFactors, ...]
    buckets: tuple[BucketFiles, ...]
    amct_record: str
    chip: str = ""
    float_nodes: tuple[FloatNode, ...] = ()
    modify_mixlist: str | None = None
    op_precision_mode: str | None = None
    precision_notes: tuple[str, ...] = ()


class LayerParity(Record):
    """The lowered layer against the same layer of the QDQ twin, given the same float input.

    Attributes:
        layer: name.
        cosine: of the layer's output, FP19 and fp16 rounding off.
        int32_exact: whether the accumulators agree exactly, given the same int8 input.
        int8_equal_fraction: share of equal elements in the quantized input, 0-1.
    """

    layer: str
    cosine: float
    int32_exact: bool
    int8_equal_fraction: float


class BucketParity(Record):
    """Parity of one bucket.

    Attributes:
        bucket: its name.
        verdict: as in `ParityReport`.
        cosine_min: least cosine over the layers.
        samples: number of calibration samples, cut or padded to the bucket.
    """

    bucket: str
    verdict: Verdict
    cosine_min: float
    samples: int


class ParityReport(Record):
    """`40_onnx/parity.json`.

    Attributes:
        verdict: fail when a layer's cosine is below 0.99999, an accumulator differs, or fewer than
            99.999% of a layer's int8 inputs agree.
        cosine_min: least cosine over the layers (1 without INT8 layers).
        layers: in graph order; of several buckets, the worst of each layer.
        buckets: in the order of the configuration.
    """

    verdict: Verdict
    cosine_min: float
    layers: tuple[LayerParity, ...]
    buckets: tuple[BucketParity, ...] = ()
