"""Tables of the deploy model, its parity and the conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.om_record import Finding, OmRecord, elsewhere_text
from quantflow.report.sheet import (
    Sheet,
    cosine_text,
    count_text,
    dims_text,
    number_text,
    share_text,
)


def factors_sheet(export: ExportRecord) -> Sheet:
    """How each layer stands in the deploy model; what is not INT8 first."""
    layers = sorted(export.layers, key=lambda x: x.precision == "int8")
    rows = [
        (
            x.layer,
            x.precision,
            "-" if x.scale_d is None else number_text(x.scale_d),
            "-" if x.offset_d is None else str(x.offset_d),
            _span_text(x.scale_w),
            x.reason,
        )
        for x in layers
    ]
    head = ("layer", "precision", "scale_d", "offset_d", "scale_w", "why it is not INT8")
    return Sheet("Layers of the deploy model", head, "llrrrl", tuple(rows))


def _span_text(scales: tuple[float, ...]) -> str:
    if not scales:
        return "-"
    low, high = min(scales), max(scales)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


def _share_note(export: ExportRecord) -> str:
    return (
        f"{share_text(export.int8_mac_fraction, 1)} of MACs run in INT8, with {export.boundaries} "
        f"quantize and dequantize nodes; opset {export.opset}."
    )


def buckets_sheet(export: ExportRecord) -> Sheet:
    """The files of every bucket."""
    rows = [
        (
            x.name,
            dims_text(x.dims),
            x.deploy,
            x.qdq,
            x.float_twin,
            x.keep_dtype or "",
            x.customize_dtypes or "",
        )
        for x in export.buckets
    ]
    head = (
        *("bucket", "dimensions", "deploy model", "QDQ twin", "float twin"),
        *("keep_dtype", "customize_dtypes"),
    )
    note = " ".join((_share_note(export), *_mixed_files(export), *export.precision_notes))
    return Sheet("Files in 40_onnx", head, "lllllll", tuple(rows), note)


def _mixed_files(export: ExportRecord) -> list[str]:
    """The files for all buckets that a person may name in ``[atc.options]``."""
    named = [name for name in (export.modify_mixlist, export.op_precision_mode) if name]
    return [f"For [atc.options], as the README says: {', '.join(named)}."] if named else []


def op_types_sheet(export: ExportRecord) -> Sheet:
    """Node counts of the first bucket's deploy model, most frequent first."""
    counts = export.buckets[0].op_types if export.buckets else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(name, count_text(count)) for name, count in ordered]
    return Sheet("Operators of the deploy model", ("op", "nodes"), "lr", tuple(rows))


def parity_sheet(parity: ParityReport) -> Sheet:
    """The lowered layers against the QDQ twin's, least cosine first."""
    layers = sorted(parity.layers, key=lambda x: (x.int32_exact, x.cosine, x.int8_equal_fraction))
    rows = [
        (
            x.layer,
            cosine_text(x.cosine),
            "yes" if x.int32_exact else "no",
            share_text(x.int8_equal_fraction, 5),
        )
        for x in layers
    ]
    head = ("layer", "cosine", "int32 exact", "int8 inputs equal")
    note = "Required: cosine 0.99999, exact accumulators, 99.999% of int8 inputs equal."
    return Sheet("Parity of lowered model and QDQ twin", head, "lrlr", tuple(rows), note)


def bucket_parity_sheet(parity: ParityReport) -> Sheet:
    """Each bucket's verdict; empty for one bucket, of which the layers say all."""
    rows = [
        (x.bucket, x.verdict, cosine_text(x.cosine_min), count_text(x.samples))
        for x in parity.buckets
    ]
    head = ("bucket", "verdict", "least cosine", "samples")
    return Sheet("Parity of every bucket", head, "llrr", tuple(rows) if len(rows) > 1 else ())


def findings_sheet(findings: Sequence[Finding]) -> Sheet:
    """What preflight noticed, errors first."""
    rows = [(x.level, x.what, x.where, x.fix) for x in sorted(findings, key=lambda x: x.level)]
    return Sheet("Preflight", ("level", "what", "where", "fix"), "llll", tuple(rows))


def rejected_sheet(om: OmRecord) -> Sheet:
    """What came back from another machine and was not taken over; what was there before stays."""
    rows = [(x.where, x.what, x.fix) for x in om.rejected]
    return Sheet("Not taken over", ("conversion", "what", "fix"), "lll", tuple(rows))


def conversions_sheet(om: OmRecord) -> Sheet:
    """How each conversion went."""
    models = [x for x in om.conversions if x.kind != "probe"]
    rows = [(x.name, x.kind, x.status, x.om or "-", x.reason) for x in models]
    probes = Counter((x.status, x.reason) for x in om.conversions if x.kind == "probe")
    rows += [
        (f"{count} probe{'s' * (count > 1)}", "probe", status, "-", reason)
        for (status, reason), count in probes.items()
    ]
    head = ("conversion", "kind", "status", ".om file", "reason")
    note = " ".join(f"Converted on another machine: {elsewhere_text(x)}." for x in om.elsewhere)
    return Sheet("Conversion", head, "lllll", tuple(rows), note)
