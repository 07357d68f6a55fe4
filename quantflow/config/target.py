"""`[target]`: what is compiled for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from quantflow.config.section import DimName, Flag, Section, Size, not_empty


def _all_different(buckets: tuple[dict[str, int], ...]) -> tuple[dict[str, int], ...]:
    for index, bucket in enumerate(buckets):
        if bucket in buckets[:index]:
            raise ValueError(f"buckets {buckets.index(bucket)} and {index} are the same")
    return buckets


def _as_text(value: object) -> object:
    # A version without quotes is read as a number, on the command line above all.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


class TargetConfig(Section):
    """What is compiled for.

    Attributes:
        chip: the soc_version that atc is given.
        cann: version of the op table, which also sets the opset ceiling.
        fp19_dequant: whether the chip reads dequantization scales as FP19.
        buckets: the static shapes to compile, each a value for every free dimension of the model.
            The first one is the one that is evaluated.
    """

    chip: str = "Ascend310P3"
    cann: Annotated[Literal["2026", "8.0"], BeforeValidator(_as_text)] = "2026"
    fp19_dequant: Flag = True
    buckets: Annotated[
        tuple[dict[DimName, Size], ...],
        AfterValidator(not_empty),
        AfterValidator(_all_different),
    ] = ({"batch": 1},)
