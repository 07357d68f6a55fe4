"""Long texts for a model of fixed length: which tokens it is given, and which it is to foretell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quantflow.errors import fail


@dataclass(frozen=True, slots=True)
class Window:
    """What a model sees at once.

    Attributes:
        tokens: ids that it is given, one or more.
        targets: ids that its last positions are to foretell, the last of them the one that follows.
    """

    tokens: tuple[int, ...]
    targets: tuple[int, ...]


def continuation_window(context: Sequence[int], continuation: Sequence[int], length: int) -> Window:
    """The window of a continuation; what is too long loses the start of its context.

    Args:
        context: ids before it, one or more.
        continuation: ids to foretell, one or more.
        length: positions of the model.

    Raises:
        QuantflowError: QF320 when the continuation alone is longer than the model.
    """
    if len(continuation) > length:
        what = f"a continuation has {len(continuation)} tokens, the bucket takes {length}"
        fail("QF320", what, where="target.buckets", fix="export a bucket of a larger length")
    row = (*context, *continuation)[-(length + 1) :]
    return Window(row[:-1], tuple(continuation))


def rolling_windows(tokens: Sequence[int], prefix: int, length: int) -> Iterator[Window]:
    """Windows that foretell every token of a text once, with as much context as fits.

    The first one starts with `prefix`; the last one is full, so that its first positions were
    foretold before (as lm-evaluation-harness defines `loglikelihood_rolling`).

    Args:
        tokens: of the text; none give no window.
        prefix: id that stands before the text.
        length: positions of the model.
    """
    row = (prefix, *tokens)
    for start in range(0, len(tokens), length):
        end = min(start + length, len(tokens))
        yield Window(row[max(end - length, 0) : end], row[start + 1 : end + 1])
