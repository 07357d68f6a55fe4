"""The precision plan: which groups are INT8, which nodes stay in fp32. A person may edit it.

Every node that is neither in an INT8 group nor an island runs in fp16.
"""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.ranges_record import Island
from quantflow.artifacts.record import Record


class PlannedGroup(Record):
    """The precision of one group, and why."""

    precision: Literal["int8", "fp16"]
    reason: str = ""


class PrecisionPlan(Record):
    """`plan.json`.

    Attributes:
        policy: how the plan came about.
        groups: precision of every group, by name.
        islands: nodes that stay in fp32.
    """

    policy: str
    groups: dict[str, PlannedGroup]
    islands: tuple[Island, ...] = ()

    @property
    def fp16_groups(self) -> list[str]:
        """Names of the groups that stay in fp16, sorted."""
        return sorted(name for name, group in self.groups.items() if group.precision == "fp16")

    @property
    def island_nodes(self) -> frozenset[str]:
        """Names of the nodes that stay in fp32."""
        return frozenset(island.node for island in self.islands)
