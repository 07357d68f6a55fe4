"""Asking the probes on a device, and what their answers mean for a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from quantflow.artifacts.om_run import ProbeAnswer
from quantflow.ascend.probe_cases import ProbeCase, probe_cases
from quantflow.ascend.probe_model import INPUT
from quantflow.ascend.probes import judge_probe
from quantflow.ascend.run_atc import find_om
from quantflow.config import Config
from quantflow.progress import Progress
from quantflow.runtime.om_model import OmModel

_UNKNOWN = (
    "the chip's output is none of those that were thought of: the figures of int8 do not hold for "
    "what this probe is about"
)
_CUT = (
    "figures of int8 are of scales in float32, which this chip cuts: set target.fp19_dequant = true"
)


def ask_probes(
    files: Sequence[tuple[ProbeCase, Path]],
    open_om: Callable[[Path], OmModel],
    config: Config,
    progress: Progress,
) -> list[ProbeAnswer]:
    """Run compiled probes, one after the other.

    Args:
        files: probes and their .om files.
        open_om: loads one.
        config: of the run, which says what it relies on.
        progress: called after every probe.

    Raises:
        QuantflowError: what loading and running raise.
    """
    answers = list[ProbeAnswer]()
    for done, (case, path) in enumerate(files):
        model = open_om(path)
        try:
            outputs = list(model.run({INPUT: case.x}).values())
        finally:
            model.close()
        answer = judge_probe(outputs[0], case.hypotheses) if len(outputs) == 1 else None
        answers.append(_read(case, answer or "", config))
        progress("probes", done + 1, len(files))
    return answers


def answer_text(answer: ProbeAnswer) -> str:
    """The answer, also where it is none of those that were thought of."""
    return answer.answer or "none of the known answers"


def probe_files(folder: Path) -> list[tuple[ProbeCase, Path]]:
    """The probes whose .om files are there.

    Args:
        folder: `50_om`.
    """
    found = list[tuple[ProbeCase, Path]]()
    for case in probe_cases():
        path = find_om(folder / case.name) or find_om(folder / "probes" / case.name)
        if path is not None:
            found.append((case, path))
    return found


def probe_reasons(answers: Sequence[ProbeAnswer]) -> list[str]:
    """A sentence for every answer that the run relies on and that is another one."""
    return [
        f"probe: {x.question} It is {answer_text(x)!r}, not {x.assumed!r}: {x.meaning}"
        for x in answers
        if x.relied_on and x.answer != x.assumed
    ]


def _read(case: ProbeCase, answer: str, config: Config) -> ProbeAnswer:
    assumed = case.assumed
    if case.name == "probe_scale_bits" and not config.target.fp19_dequant:
        assumed = next(name for name in case.hypotheses if name != assumed)
    meaning = ""
    if answer != assumed:
        meaning = case.meanings.get(answer, _CUT) if answer else _UNKNOWN
    return ProbeAnswer(
        name=case.name,
        question=case.question,
        answer=answer,
        assumed=assumed,
        relied_on=_relied_on(case.name, config),
        meaning=meaning,
    )


def _relied_on(name: str, config: Config) -> bool:
    """Whether a deploy model of this configuration can have what a probe is about."""
    own = [config.quantization, *config.quantization.overrides]
    if name == "probe_per_channel":
        return any(x.weight_granularity == "per-channel" for x in own)
    if name in ("probe_matmul_offset", "probe_conv_padding"):
        return any(x.symmetric is False for x in own)
    return True
