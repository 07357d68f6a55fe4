# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A feature table on disk: one safetensors file, equal bytes for equal data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.reading import reading
from quantflow.artifacts.record import Record
from quantflow.calibration.features.table import FeatureTable

_KEY = "quantflow features 1"


class _Header(Record):
    """What the file's header holds."""

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    names: tuple[str, ...]
    counts: tuple[str, ...]
    categories: tuple[str, ...]


def save_table(path: Path, table: FeatureTable) -> None:
    """Write a table; `load_table` gives back exactly what was written."""
    header = _Header(
        ids=table.ids,
        digests=table.digests,
        names=table.names,
        counts=tuple(table.counts),
        categories=tuple(table.categories),
    )
    arrays = {
        "values": np.asarray(table.values, order="C"),
        **{f"counts/{name}": array for name, array in table.counts.items()},
        **{f"categories/{name}": array for name, array in table.categories.items()},
    }
    write_atomically(path, save(arrays, {_KEY: header.to_json()}))


def load_table(path: Path) -> FeatureTable:
    """Read a table.

    Raises:
        QuantflowError: QF408 when the file is missing, damaged or no table.
    """
    with reading(path, "features", "QF408", "build-set"):
        with safe_open(path, framework="numpy") as stream:
            header = _Header.model_validate_json((stream.metadata() or {})[_KEY])
            values = stream.get_tensor("values")
            counts = {name: stream.get_tensor(f"counts/{name}") for name in header.counts}
            categories = {x: stream.get_tensor(f"categories/{x}") for x in header.categories}
        if values.shape != (len(header.ids), len(header.names)):
            raise ValueError(f"its values have shape {values.shape}")
    return FeatureTable(header.ids, header.digests, header.names, values, counts, categories)
