"""What quantflow needs of anything that runs a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

Feeds = Mapping[str, NDArray[Any]]


class Runner(Protocol):
    """A model that is ready to run."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        ...

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once on arrays that include the batch axis; returns every output by name."""
        ...
