"""Tables of what became of a quantized file."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.artifacts.from_qdq_record import FromQdqRecord
from quantflow.report.sheet import Sheet, cosine_text


def from_qdq_sheets(record: FromQdqRecord) -> Iterator[Sheet]:
    """Layers that are not INT8, and how the deploy model agrees with the file."""
    floats = tuple((x.layer, x.precision, x.reason) for x in record.float_layers)
    yield Sheet("Layers that are not INT8", ("layer", "runs in", "why"), "lll", floats)
    rows = tuple(
        (
            x.bucket,
            x.output,
            str(x.samples),
            cosine_text(x.cosine_mean),
            cosine_text(x.cosine_min),
            f"{x.max_abs_error:.3g}",
            cosine_text(x.file_to_float),
            cosine_text(x.deploy_to_float),
        )
        for x in record.agreement
    )
    head = (
        *("bucket", "output", "samples", "mean cosine", "least", "largest difference"),
        *("file to float", "deploy to float"),
    )
    note = (
        f"On {record.inputs} inputs. The deploy model is emulated: integers exactly, floats in "
        "fp16. Where the file quantizes what no INT8 layer reads, the deploy model does not. The "
        "last columns are mean cosines to the float model that is in the file."
    )
    yield Sheet("Deploy model against the file in onnxruntime", head, "llrrrrrr", rows, note)
