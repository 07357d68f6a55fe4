"""The command line of atc for one bucket."""

from __future__ import annotations

from collections.abc import Mapping

from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.ascend.option_files import option_files, travelling_name
from quantflow.ascend.options import option_texts
from quantflow.config import Config, LoadedConfig

ONNX_FRAMEWORK = 5


def atc_arguments(
    config: Config,
    bucket: BucketFiles,
    *,
    model_path: str,
    output: str,
    keep_dtype: str | None = None,
    option_files: Mapping[str, str] | None = None,
    own_options: bool = True,
) -> list[str]:
    """The arguments of atc, each of them ``--name=value``.

    Args:
        config: gives the chip and the further options.
        bucket: gives the static input shapes.
        model_path: the deploy model, as atc's working directory sees it.
        output: the .om file without its suffix.
        keep_dtype: the file that names the fp32 islands, None without islands.
        option_files: where the files that options name lie, by option; others stay as configured.
        own_options: whether the options of the configuration are passed on, which may name nodes
            and inputs of its model.
    """
    options = {
        "framework": str(ONNX_FRAMEWORK),
        "model": model_path,
        "output": output,
        "soc_version": config.target.chip,
        "input_shape": input_shape(bucket.input_shapes),
    }
    if keep_dtype is not None:
        options["keep_dtype"] = keep_dtype
    given = option_texts(config.atc.options) if own_options else {}
    if not {"precision_mode", "precision_mode_v2"} & given.keys():
        options["precision_mode"] = "force_fp16"
    options |= given | (dict(option_files or {}) if own_options else {})
    return [f"--{name}={value}" for name, value in options.items()]


def planned_arguments(
    loaded: LoadedConfig, bucket: BucketFiles, *, own_options: bool = True
) -> list[str]:
    """The arguments for one model, as they are given in the hand-over folder.

    Args:
        loaded: the configuration.
        bucket: its inputs in the order of the graph, see `in_graph_order`.
        own_options: as of `atc_arguments`.

    Raises:
        QuantflowError: QF104 when an option's path names a package that is not installed.
    """
    files = option_files(loaded)
    return atc_arguments(
        loaded.config,
        bucket,
        model_path=bucket.deploy,
        output=bucket.name,
        keep_dtype=bucket.keep_dtype,
        option_files={name: travelling_name(name, path) for name, path in files.items()},
        own_options=own_options,
    )


def in_graph_order(export: ExportRecord, model: ModelRecord) -> ExportRecord:
    """The record with inputs in the order of the graph: JSON has sorted them by name."""
    places = {info.name: place for place, info in enumerate(model.inputs)}
    buckets = list[BucketFiles]()
    for bucket in export.buckets:
        shapes = bucket.input_shapes
        names = sorted(shapes, key=lambda name: places.get(name, len(places)))
        ordered = {name: shapes[name] for name in names}
        buckets.append(bucket.model_copy(update={"input_shapes": ordered}))
    return export.model_copy(update={"buckets": tuple(buckets)})


def input_shape(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The value of ``--input_shape``: ``name:1,128;other:1,128``."""
    return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items())
