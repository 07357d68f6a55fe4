"""What every section of the configuration is, and the types that several of them have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["qkv", "attention_output", "ffn", "classifier", "conv", "other"]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Size = Annotated[int, Field(strict=True, ge=1, lt=2**31)]
DimName = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


def not_empty(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse an empty list; unlike min_length, without a word when an item is wrong already.

    Raises:
        ValueError: when it is empty.
    """
    if not value:
        raise ValueError("must not be empty")
    return value


class Section(BaseModel):
    """A table of the configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
