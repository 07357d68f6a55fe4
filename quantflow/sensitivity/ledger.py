"""Results that cost time: known to all workers alike, and kept by the leader across a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from quantflow.artifacts.journal import Journal
from quantflow.runtime.workers import Workers


class Ledger:
    """What has been measured, by key.

    All workers ask for the same keys in the same order, and what one of them computes they all
    compute together, so they hold the same entries.

    Args:
        journal: of the leader; None for the others.
        workers: who they are. They are told what the leader knows.
    """

    def __init__(self, journal: Journal | None, workers: Workers) -> None:
        self._journal = journal
        entries = journal.entries if journal is not None else {}
        told = workers.exchange(json.dumps(entries).encode())
        self._entries: dict[str, Any] = json.loads(told[0])

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def entry(self, key: str) -> Any:
        """The result noted under a key; KeyError when there is none."""
        return self._entries[key]

    def recall(self, key: str, compute: Callable[[], Any]) -> Any:
        """The JSON-like result noted under a key, computed and noted if there is none."""
        if key not in self._entries:
            value = compute()
            if self._journal is not None:
                self._journal.note(key, value)
            self._entries[key] = value
        return self._entries[key]
