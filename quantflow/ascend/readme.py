"""`README.txt` of the hand-over folder: what is in it, and how a converted model is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.om_record import OmStatus
from quantflow.graph.model_io import load_model

README = "README.txt"

_STATUS: dict[OmStatus, str] = {
    "converted": "The .om files were compiled by atc. Nothing here was run on an NPU.",
    "not-converted": "Nothing here was converted by atc, or run on an NPU.",
    "refused": "atc was not started, for what om.json says. Nothing here was run on an NPU.",
    "failed": "Not every model was converted: see om.json. Nothing here was run on an NPU.",
}

_CONVERT = """\
CONVERT
On a machine with CANN, source its set_env.sh, then
    python3 convert.py [bucket ...]
It runs atc with the arguments in conversions.json and writes <bucket>.om, logs/<bucket>.log and
result.json. It needs Python 3.7 or later and nothing else.
"""

_CHECK = """\
CHECK
samples_<bucket>.npz, for numpy.load, holds one batch of evaluation samples and what comes of it:
    input/<name>   what to feed, padded to the bucket; where samples were short, the last repeats
    int8/<name>    outputs of the deploy model, computed on a CPU with standard ONNX operators:
                   integers exactly, fp16 rounding imitated
    fp32/<name>    outputs of the float32 model
Feed the inputs to the .om and take the cosine between its outputs and these, sample by sample,
leaving out positions that the mask marks as padding.
"""

_EXPECT = """\
An NPU sums and rounds in an order of its own. So expect agreement with fp32/ within the cosine
above, and with int8/ no worse than that; do not expect it bit for bit.
"""


def write_readme(
    folder: Path,
    status: OmStatus,
    buckets: Sequence[BucketFiles],
    without_samples: Sequence[str],
    comparison: Comparison | None,
) -> None:
    """Write `README.txt` beside the deploy models.

    Args:
        folder: the hand-over folder, which holds them.
        status: what came of the conversion.
        buckets: all of them.
        without_samples: names of buckets that no evaluation sample fits.
        comparison: gives the cosine to expect; None before the models were compared.
    """
    missing = [f"No evaluation sample fits {name}: it has no file.\n" for name in without_samples]
    parts = [
        "INT8 models for Huawei Ascend, written by quantflow\n",
        f"At the time of writing: {_STATUS[status]}\n",
        _CONVERT,
        "INPUTS AND OUTPUTS\nIn the order of the graph, with static shapes:\n"
        + "".join(f"{line}\n" for bucket in buckets for line in _boundary(folder, bucket)),
        _CHECK + "".join(missing),
        _expected(comparison) + _EXPECT,
    ]
    (folder / README).write_text("\n".join(parts), encoding="utf-8")


def _boundary(folder: Path, bucket: BucketFiles) -> Iterator[str]:
    graph = load_model(folder / bucket.deploy).graph
    inputs = [value for value in graph.inputs if not value.is_initializer()]
    rows = [("input", *_described(value)) for value in inputs]
    rows += [("output", *_described(value)) for value in graph.outputs]
    width = max(len(name) for _, name, _, _ in rows)
    yield f"{bucket.name} ({bucket.deploy})"
    for kind, name, dtype, shape in rows:
        yield f"    {kind:6}  {name:{width}}  {dtype:8}  {shape}"


def _described(value: ir.Value) -> tuple[str, str, str]:
    dtype = value.dtype.numpy().name if value.dtype is not None else "?"
    shape = ",".join(map(str, value.shape.dims)) if value.shape is not None else "?"
    return str(value.name), dtype, shape


def _expected(comparison: Comparison | None) -> str:
    if comparison is None:
        return "The cosine to expect: not compared yet, `quantflow compare` measures it.\n"
    int8 = comparison.fidelity["int8"]
    return (
        f"The cosine to expect between int8 and fp32: {int8.cosine_mean:.6f} on average, "
        f"{int8.cosine_min:.6f} at least,\non {comparison.samples} evaluation samples of "
        f"{comparison.bucket}.\n"
    )
