"""`[plan]` and `[budget]`: which layers stay in fp16, and what the model must reach."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from quantflow.config.section import Flag, Role, Section

Policy = Literal["auto", "attention", "none"]
Metric = Literal["cosine", "sqnr", "relative_error", "kl", "perplexity", "agreement", "function"]


class PinConfig(Section):
    """Groups whose precision is not searched but given.

    Attributes:
        pattern: shell-style pattern of group or layer names, such as ``*.layer.0.*``.
        role: all groups of a role.
        precision: what they run in.
    """

    pattern: str | None = None
    role: Role | None = None
    precision: Literal["int8", "fp16"] = "fp16"

    @model_validator(mode="after")
    def _one_way(self) -> PinConfig:
        if (self.pattern is None) == (self.role is None):
            raise ValueError("give exactly one of 'pattern' and 'role'")
        return self


class PlanConfig(Section):
    """Which layers stay in fp16.

    Attributes:
        policy: `auto` finds groups to keep in fp16 that meet the budget and give up least of what
            INT8 saves; `attention` keeps QKV groups and output projections in fp16; `none` makes
            everything INT8 that can be.
        pins: groups whose precision is given; the last one that matches a group counts.
        metric: what groups are ranked by. `cosine` of the outputs, higher is better; `sqnr`, signal
            to noise in dB, higher is better; `relative_error`, ``||y - y'|| / ||y||``, lower is
            better; `kl`, the divergence of the softmax of the first output's last axis, for
            logits, lower is better; or the figure of the task of that kind: `perplexity`,
            `agreement`, `function`.
        samples: calibration samples that the search runs on.
        halving: true to measure all groups on a quarter of the samples, the worse half of them on
            half of the samples, and only the worst quarter on all; ties go on.
        boundary_macs: what one element quantized or dequantized at a layer's boundary is taken to
            cost, in INT8 multiply-accumulates.
        fp16_where_cheaper: true to put groups in fp16 whose INT8 is estimated to cost more than
            fp16, for their boundaries, whatever the accuracy.
    """

    policy: Policy = "auto"
    pins: tuple[PinConfig, ...] = ()
    metric: Metric = "cosine"
    samples: int = Field(strict=True, default=64, ge=2)
    halving: Flag = True
    boundary_macs: float = Field(strict=True, default=16.0, ge=0, allow_inf_nan=False)
    fp16_where_cheaper: Flag = False


COSINE_MEAN = 0.99
"""Least mean cosine where the budget says nothing about accuracy."""


class BudgetConfig(Section):
    """What the INT8 model must reach, on the held-out and on the evaluation samples.

    Attributes:
        cosine_mean: least mean cosine of the int8 outputs to fp32. 0.99 where no other accuracy is
            asked for that the sweep can measure.
        perplexity_rise_fraction: by what fraction of fp32's the perplexity of int8 may be larger,
            for a task of that kind.
        agreement_fraction: least share of decisions, 0-1, that int8 has in common with fp32, for a
            task of kind `agreement`.
        task_drop: by how much the task's figure may be worse than fp32's, in its own unit: the mean
            of the user's for a task of kind `function`; the top-1 accuracy as a share, 0-1, for
            `classification`; the mean reciprocal rank for `retrieval`; Spearman's correlation for
            `similarity`. Only the comparison can judge the last three, which have records of their
            own: the sweep goes by what else is asked, or by the cosine.
        int8_mac_fraction: least share of MACs, 0-1, that the plan leaves in INT8.
        fp16_groups: most groups that the plan puts in fp16.
    """

    cosine_mean: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    perplexity_rise_fraction: Annotated[float, Field(strict=True, gt=0)] | None = None
    agreement_fraction: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    task_drop: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None = None
    int8_mac_fraction: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    fp16_groups: Annotated[int, Field(strict=True, ge=0)] | None = None
