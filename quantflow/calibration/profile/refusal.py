"""Saying what is wrong with a profile."""

from __future__ import annotations


def refuse(wrong: object, reason: str) -> None:
    """Raise ValueError with `reason` where `wrong` is true."""
    if wrong:
        raise ValueError(reason)
