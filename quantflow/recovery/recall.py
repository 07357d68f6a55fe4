"""Results that cost time, across a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Recall = Callable[[str, Callable[[], Any]], Any]
"""Gives the JSON-like result noted under a key before a kill, or computes and notes it."""
