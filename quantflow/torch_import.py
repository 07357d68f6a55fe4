"""Importing torch and torch_npu, in one place and with one sentence where that fails."""

from __future__ import annotations

import importlib
import os
from typing import Any

from quantflow.errors import fail
from quantflow.printable import raised

_WAY_OUT = "source CANN's set_env.sh, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0"


def import_torch() -> Any:
    """Import torch, unharmed by a torch_npu that has no CANN beneath it (C44).

    Raises:
        QuantflowError: QF603 when torch cannot be imported.
    """
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    try:
        import torch
    except ImportError as error:
        fail("QF603", f"torch cannot be imported: {error}", fix="pip install torch==2.13.0")
    except (OSError, RuntimeError) as error:
        # What torch raises for a backend that does not load, where the environment asks for it.
        fail("QF603", f"torch cannot be imported: {error}", fix=_WAY_OUT)
    return torch


def import_torch_npu() -> Any:
    """Import torch_npu, which adds the device ``npu`` to torch.

    Raises:
        QuantflowError: QF603 when it is not installed, or CANN is not there.
    """
    import_torch()
    try:
        return importlib.import_module("torch_npu")
    except ModuleNotFoundError as error:
        if error.name != "torch_npu":
            what = f"torch_npu lacks the module {error.name}"
            fail("QF603", what, fix=f"pip install {error.name}, or take another device")
        what = "torch_npu is not installed, and torch has no device npu without it"
        fix = "pip install torch_npu of torch's version, or take another device"
        fail("QF603", what, fix=fix)
    except Exception as error:
        what = f"torch_npu cannot be imported: {raised(error)}"
        fail("QF603", what, fix=f"{_WAY_OUT} and take another device")
