"""What `quantflow from-qdq` writes about a model that came quantized."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record, Verdict


class FloatLayer(Record):
    """A layer that is not INT8 in the deploy model, and why."""

    layer: str
    precision: Literal["fp16", "fp32"]
    reason: str


class OutputAgreement(Record):
    """One output of the deploy model against the same output of the quantized file.

    Attributes:
        bucket, output: which.
        samples: number of samples.
        cosine_mean, cosine_min: over the samples; -1 where a value is not finite.
        max_abs_error: largest difference, units of the output.
        file_to_float, deploy_to_float: mean cosine of each to the float model in the file, whose
            weights are those of the file and whose activations are not quantized.
    """

    bucket: str
    output: str
    samples: int
    cosine_mean: float
    cosine_min: float
    max_abs_error: float
    file_to_float: float
    deploy_to_float: float


class FromQdqRecord(Record):
    """`from_qdq.json`.

    Attributes:
        source: name of the quantized file.
        refused_before: number of nodes in it that atc has no parser for, by op type.
        refused_after: the same of the deploy models; empty, or they would not be there.
        warnings: what the linter remarks on the deploy models.
        int8_layers: number of INT8 layers.
        int8_mac_fraction: their share of the layers' multiply-accumulates, 0-1.
        float_layers: all others.
        notes: what a person should know of the file and of what was done to it.
        inputs: what the comparison was run on.
        agreement: the deploy model, emulated, against the file run by onnxruntime.
        verdict, reasons: whether they agree.
    """

    source: str
    refused_before: dict[str, int]
    refused_after: dict[str, int]
    warnings: tuple[str, ...]
    int8_layers: int
    int8_mac_fraction: float
    float_layers: tuple[FloatLayer, ...]
    notes: tuple[str, ...]
    inputs: Literal["given", "random", "none"]
    agreement: tuple[OutputAgreement, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
