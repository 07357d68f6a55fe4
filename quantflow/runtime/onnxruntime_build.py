# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""The onnxruntime that is installed. This module and the runner alone import it."""

from __future__ import annotations

import onnxruntime as ort

from quantflow.config import RuntimeConfig

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cann": "CANNExecutionProvider",
}
"""Execution providers by the name that the configuration gives them."""

SESSION_ENTRIES = {
    # Without it, u8 x s8 products saturate on processors with AVX2 and no VNNI.
    "session.x64quantprecision": "1",
    # Threads that wait for more to do would take the processors from the session that is next.
    "session.force_spinning_stop": "1",
}
"""Entries of every session's configuration."""


def available_providers() -> list[str]:
    """Execution providers of the installed onnxruntime, the preferred one first."""
    return list(ort.get_available_providers())


def build_identity() -> str:
    """Version of onnxruntime: part of what decides bytes of results."""
    return f"onnxruntime {ort.__version__}"


def session_settings(config: RuntimeConfig) -> dict[str, str]:
    """Provider, threads (0: one a core) and entries of every session, by onnxruntime's names."""
    return {
        "provider": PROVIDERS[config.provider],
        "intra_op_num_threads": str(config.threads),
        "inter_op_num_threads": "1",
        **SESSION_ENTRIES,
    }
