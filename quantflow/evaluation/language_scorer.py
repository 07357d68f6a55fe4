"""Log-likelihoods and greedy continuations by a causal language model of one static shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.errors import fail
from quantflow.evaluation.token_windows import Window
from quantflow.numerics.token_loss import token_losses
from quantflow.runtime.bucket_run import batch_size
from quantflow.runtime.runner import Runner


class LanguageScorer:
    """A bucket whose first output is the logits of the next token.

    Rows are filled up behind their tokens, which no causal model sees from before; the mask, where
    there is one, says so too.

    Args:
        runner: the bucket.
        record, dims: its boundary and sizes.
        tokens: the input that holds the token ids.

    Attributes:
        length: positions of the bucket.

    Raises:
        QuantflowError: QF310 when the model takes something else than token ids and a mask.
    """

    def __init__(
        self,
        runner: Runner,
        record: ModelRecord,
        dims: Mapping[str, int],
        tokens: str = "input_ids",
    ) -> None:
        by_name = {info.name: info for info in record.inputs}
        others = [x.name for x in record.inputs if x.name != tokens and not x.mask]
        if tokens not in by_name or len(by_name[tokens].shape) != 2 or others:
            fail(
                "QF310",
                f"the model's inputs are {', '.join(map(repr, by_name))}",
                where=tokens,
                fix=f"scoring needs token ids in {tokens!r}, (batch, length), and a mask at most",
            )
        size = by_name[tokens].shape[1]
        self.length = size if isinstance(size, int) else dims[size]
        self._infos, self._tokens, self._run = record.inputs, tokens, runner.run
        self._batch = batch_size(record, dims)

    def score(self, windows: Sequence[Window]) -> Iterator[tuple[float, bool]]:
        """Log-likelihood of every window's targets, and whether each is the likeliest token.

        Args:
            windows: of `length` tokens at most.

        Yields:
            Natural logarithm, 0 or less; NaN where a logit is not finite.
        """
        for window, logits in self._logits(windows):
            targets = np.array(window.targets)
            # token_losses foretells what follows; the token in front of the targets is not used.
            losses = token_losses(logits[-len(targets) :], np.array([0, *window.targets]))
            greedy = logits[-len(targets) :].argmax(axis=-1) == targets
            yield -float(losses.sum()), bool(greedy.all())

    def generate(
        self, context: Sequence[int], most: int, stop: Callable[[list[int]], bool]
    ) -> list[int]:
        """Tokens that follow a context, each the likeliest one; the bucket runs anew for each.

        Args:
            context: ids, one or more; of a long one the last `length` count.
            most: tokens to stop after.
            stop: told all tokens so far after each; true to end with these.
        """
        found = list[int]()
        while len(found) < most:
            seen = (*context, *found)[-self.length :]
            ((_, logits),) = self._logits([Window(seen, ())])
            found.append(int(logits[-1].argmax()))
            if stop(found):
                break
        return found

    def _logits(
        self, windows: Sequence[Window]
    ) -> Iterator[tuple[Window, NDArray[np.floating[Any]]]]:
        """Every window with the logits of its own positions, ``(len(tokens), V)``."""
        rest = iter(windows)
        while some := list(islice(rest, self._batch)):
            logits = next(iter(self._run(self._feeds(some)).values()))
            if logits.ndim != 3 or logits.shape[:2] != (self._batch, self.length):
                fail(
                    "QF310",
                    f"the first output has shape {logits.shape}",
                    where="the model's outputs",
                    fix=f"it must be logits, ({self._batch}, {self.length}, vocabulary)",
                )
            for row, window in enumerate(some):
                yield window, logits[row, : len(window.tokens)]

    def _feeds(self, windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
        shape = (self._batch, self.length)
        feeds = {info.name: np.zeros(shape, info.dtype) for info in self._infos}
        for row, window in enumerate(windows):
            for info in self._infos:
                ids = window.tokens if info.name == self._tokens else 1
                feeds[info.name][row, : len(window.tokens)] = ids
        # A row that is all padding has no softmax in some models.
        for array in feeds.values():
            array[len(windows) :] = array[0]
        return feeds
