"""Samples from an .npz file that a command is given."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.model_record import ModelRecord
from quantflow.calibration.npz_file import read_npz
from quantflow.calibration.sample_check import check_sample
from quantflow.errors import fail
from quantflow.runtime.runner import Feeds

SAMPLES_OF_OM = "input/"
"""In front of the inputs' names in samples_<bucket>.npz of `50_om`, beside the outputs."""


def read_samples(path: Path, record: ModelRecord) -> list[Feeds]:
    """The samples of a file, checked against the model's inputs.

    Args:
        path: an .npz file with one array per input, samples along the first axis; or one with
            such arrays called ``input/<name>``, as stage 5 writes it, whose other arrays are left.
        record: the model's inputs.

    Raises:
        QuantflowError: QF301 for a file without samples, QF302, QF306 and QF307 for one that does
            not fit.
    """
    taken = any(x.name.startswith(SAMPLES_OF_OM) for x in record.inputs)
    rows = read_npz([path], "" if taken else SAMPLES_OF_OM)
    if not len(rows):
        fail("QF301", "the file holds no samples", where=str(path))
    return [check_sample(row, record.inputs, f"{path.name}[{i}]") for i, row in enumerate(rows)]
