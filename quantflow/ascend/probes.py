"""Tiny models that ask a chip what could only be assumed here, and the reading of its answers.

None of them was compiled or run on an NPU to write this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.atomic import write_atomically
from quantflow.ascend.probe_cases import probe_cases
from quantflow.ascend.probe_model import INPUT, probe_model
from quantflow.config import TargetConfig
from quantflow.graph.model_io import save_model

NOISE: Final = 2.0**-9
"""Error of an output that agrees with a hypothesis, relative to it: four roundings to fp16."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A model that was written.

    Attributes:
        name: of the files, without suffix.
        file: the model; beside it lies ``<name>.npz`` with ``input/x`` and ``hypothesis/<name>``,
            the output under each hypothesis.
        input_shapes: static, by input.
        question: what its output answers.
    """

    name: str
    file: Path
    input_shapes: dict[str, tuple[int, ...]]
    question: str


def write_probes(directory: Path, target: TargetConfig) -> list[Probe]:
    """Write all probes.

    Args:
        directory: is made where it is not there.
        target: gives the version of CANN that compiles them.

    Raises:
        OSError: when a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = list[Probe]()
    for case in probe_cases():
        file = directory / f"{case.name}.onnx"
        save_model(probe_model(case, target.cann), file)
        arrays = {f"hypothesis/{name}": output for name, output in case.hypotheses.items()}
        stream = BytesIO()
        np.savez(stream, allow_pickle=False, **{f"input/{INPUT}": case.x}, **arrays)
        write_atomically(file.with_suffix(".npz"), stream.getvalue())
        written.append(Probe(case.name, file, {INPUT: case.x.shape}, case.question))
    return written


def judge_probe(output: NDArray[Any], hypotheses: Mapping[str, NDArray[Any]]) -> str | None:
    """Which hypothesis an output confirms.

    The nearest one by root mean square, if the output is as near to it as fp16 is to float32, and
    nearer than a third of the way to any other one.

    Args:
        output: what the model gave; any float type.
        hypotheses: by name, the output to expect, of one shape.

    Returns:
        The name, or None: none of them.
    """
    shape = next(iter(hypotheses.values())).shape
    if output.shape != shape or not np.isfinite(output).all():
        return None
    y = output.astype(np.float64)
    name = min(hypotheses, key=lambda name: _rms(y - hypotheses[name]))
    expected = hypotheses[name].astype(np.float64)
    others = [_rms(expected - x) for key, x in hypotheses.items() if key != name]
    allowed = min([NOISE * _rms(expected), *(distance / 3 for distance in others)])
    return name if _rms(y - expected) <= allowed else None


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
