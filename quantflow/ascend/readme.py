"""`README.txt` of the hand-over folder: what is in it, and how a converted model is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.om_manifest import ManifestBucket, OmManifest
from quantflow.artifacts.om_record import OmRecord, OmStatus, elsewhere_text
from quantflow.ascend.manifest import MANIFEST

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
    python3 convert.py [--parallel N] [--force] [name ...]
It runs atc with the arguments in conversions.json and writes <bucket>.om (INT8), <bucket>_fp16.om
(the model that it replaces, to compare with), probe_*.om (tiny models that show what the chip does
where it could only be assumed), logs/<name>.log and result.json. A name is a bucket or one
conversion. It needs Python 3.7 or later and nothing else, refuses models that are not those
of conversions.json, and goes on where it was interrupted. Exit codes: 0 every INT8 model was
converted, 2 an unknown name, a changed file, or a folder in use or not writable, 3 no atc,
4 a conversion failed, 130 interrupted.
Then bring the folder back, and where it was made run
    quantflow export-om --collect FOLDER
which verifies every .om file again and takes it over.
"""

_SERVE = """\
SERVE
manifest.json says what to load: chip, and by bucket its dims, inputs and outputs, and file, SHA-256
and size of the INT8 and the fp16 .om; null while there is none, so convert.py leaves it as it is
and --collect writes it anew. A request goes to the first bucket whose dims are all at least its
own; the smallest come first. Names, order and dtypes of inputs and outputs are those of the ONNX
model; options of atc such as output_type change them. All buckets are made by one precision plan.
"""

_CHECK = """\
CHECK
samples_<bucket>.npz, for numpy.load, holds one batch of evaluation samples and what comes of it:
    input/<name>   what to feed, padded to the bucket; where samples were short, the last repeats
    int8/<name>    outputs of the deploy model, computed on a CPU with standard ONNX operators:
                   integers exactly, fp16 rounding imitated
    fp32/<name>    outputs of the float32 model
Feed the inputs to the .om and take the cosine between its outputs and these, sample by sample,
leaving out positions that the mask marks as padding. Where quantflow, the configuration and the
run directory are at hand beside the NPU, `quantflow compare --runner om` does that with all
evaluation samples, times INT8 against fp16, and reads the probes' answers (probes/*.npz).
"""

_EXPECT = """\
An NPU sums and rounds in an order of its own. So expect agreement with fp32/ within the cosine
above, and with int8/ no worse than that; do not expect it bit for bit.
"""


def write_readme(
    folder: Path,
    record: OmRecord,
    without_samples: Sequence[str],
    comparison: Comparison | None,
) -> None:
    """Write `README.txt` beside the deploy models.

    Args:
        folder: the hand-over folder, which holds them and `manifest.json`.
        record: what came of the conversions.
        without_samples: names of buckets that no evaluation sample fits.
        comparison: gives the cosine to expect; None before the models were compared.
    """
    manifest = OmManifest.read(folder / MANIFEST)
    missing = [f"No evaluation sample fits {name}: it has no file.\n" for name in without_samples]
    parts = [
        "INT8 models for Huawei Ascend, written by quantflow\n",
        f"At the time of writing: {_STATUS[record.status]}\n{''.join(_claims(record))}",
        _CONVERT,
        _SERVE,
        "INPUTS AND OUTPUTS\nIn the order of the graph, with static shapes:\n"
        + "".join(f"{line}\n" for bucket in manifest.buckets for line in _boundary(bucket)),
        _CHECK + "".join(missing),
        _expected(comparison) + _EXPECT,
    ]
    (folder / README).write_text("\n".join(parts), encoding="utf-8")


def _claims(record: OmRecord) -> Iterator[str]:
    for where in record.elsewhere:
        yield f"Converted on another machine: {elsewhere_text(where)}.\n"


def _boundary(bucket: ManifestBucket) -> Iterator[str]:
    tensors = [("input", x) for x in bucket.inputs] + [("output", x) for x in bucket.outputs]
    width = max(len(tensor.name) for _, tensor in tensors)
    yield bucket.name
    for kind, x in tensors:
        yield f"    {kind:6}  {x.name:{width}}  {x.dtype:8}  {','.join(map(str, x.shape))}"


def _expected(comparison: Comparison | None) -> str:
    if comparison is None:
        return "The cosine to expect: not compared yet, `quantflow compare` measures it.\n"
    int8 = comparison.fidelity["int8"]
    return (
        f"The cosine to expect between int8 and fp32: {int8.cosine_mean:.6f} on average, "
        f"{int8.cosine_min:.6f} at least,\non {comparison.samples} evaluation samples of "
        f"{comparison.bucket}.\n"
    )
