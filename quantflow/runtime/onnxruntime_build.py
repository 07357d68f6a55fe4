# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""The onnxruntime that is installed. This module and the runner alone import it."""

from __future__ import annotations

import onnxruntime as ort

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cann": "CANNExecutionProvider",
}
"""Execution providers by the name that the configuration gives them."""


def available_providers() -> list[str]:
    """Execution providers of the installed onnxruntime, the preferred one first."""
    return list(ort.get_available_providers())


def build_identity() -> str:
    """Version of onnxruntime: part of what decides bytes of results."""
    return f"onnxruntime {ort.__version__}"
