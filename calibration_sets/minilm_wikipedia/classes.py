"""WordNet's nouns by kind: which of 26 a definition is of, and a head on the encoder that tells.

The kinds are WordNet's lexicographer files 3 to 28, from `noun.Tops` to `noun.time`; see
lexnames(5WN). The head is a logistic regression on the embeddings, fitted when first asked for.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import numpy as np
import torch
from model import PACKAGE, encoder
from numpy.typing import NDArray
from scipy import optimize
from tokenizers import Tokenizer
from torch import Tensor, nn
from wordnet import FILE, noun_lines, parsed

FIRST, KINDS = 3, 26
PARTS = 4
"""Of four definitions in a row one is for the head, one a candidate, one deployed, one asked."""
FITTED, ASKED = 4000, 1000
LONGEST = 64
"""Tokens; one definition in a thousand is longer."""
PENALTY = 1e-4
"""On the squared weights, beside the mean loss: of its neighbours the best on candidates."""
CACHE = Path(__file__).parents[2] / "runs" / "wordnet_kinds"

Record = dict[str, str]


class KindOfThing(nn.Module):
    """The encoder and a linear head on its embedding.

    Args:
        encoder: from ids and mask to embeddings ``(B, 384)``.
        weight, bias: ``(26, 384)`` and ``(26,)`` float32.
    """

    def __init__(self, encoder: nn.Module, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(weight.shape[1], weight.shape[0])
        self.classifier.weight = nn.Parameter(weight)
        self.classifier.bias = nn.Parameter(bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits ``(B, 26)`` float32 of ids and mask ``(B, L)`` int64."""
        return self.classifier(self.encoder(input_ids, attention_mask))


def classifier() -> nn.Module:
    """Encoder and head, in eval mode; the head is fitted in a minute and kept in `runs/`."""
    path = _head_file()
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(dir=CACHE, prefix="partial-")) / path.name
        texts, labels = zip(*_spread(_part(0), FITTED), strict=True)
        weight, bias = fitted(embeddings(encoder(), texts), np.array(labels), KINDS, PENALTY)
        np.savez(made, weight=weight, bias=bias)
        made.replace(path)
        made.parent.rmdir()
    with np.load(path, allow_pickle=False) as head:
        weight, bias = torch.tensor(head["weight"]), torch.tensor(head["bias"])
    return KindOfThing(encoder(), weight, bias).eval()


def fitted(
    x: NDArray[np.float64], labels: NDArray[np.int64], classes: int, penalty: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight ``(C, D)`` and bias ``(C,)`` of least mean cross entropy and penalty.

    Args:
        x: rows ``(n, D)``.
        labels: their classes ``(n,)``.
        classes: C.
        penalty: on the sum of squared weights.
    """
    truth = np.eye(classes)[labels]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = np.split(flat, [classes * x.shape[1]])
        logits = x @ weight.reshape(classes, -1).T + bias
        logits -= logits.max(1, keepdims=True)
        total = np.log(np.exp(logits).sum(1, keepdims=True))
        error = (np.exp(logits - total) - truth) / len(x)
        value = ((total - logits) * truth).sum() / len(x) + penalty * weight @ weight
        gradient = (error.T @ x).ravel() + 2 * penalty * weight
        return float(value), np.concatenate([gradient, error.sum(0)])

    start, solver = np.zeros(classes * (x.shape[1] + 1)), cast(Any, optimize)
    found = solver.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    flat: NDArray[np.float32] = np.asarray(found.x, np.float32)
    weight, bias = np.split(flat, [classes * x.shape[1]])
    return weight.reshape(classes, -1), bias


def embeddings(of: nn.Module, texts: tuple[str, ...]) -> NDArray[np.float64]:
    """Embeddings ``(n, 384)`` of texts, those of like length together."""
    encode = _tokenizer().encode_batch
    found = np.empty((len(texts), 384))
    order = np.argsort([len(text) for text in texts], kind="stable")
    for places in np.array_split(order, max(1, len(texts) // 64)):
        rows = encode([texts[place] for place in places])
        ids = torch.tensor([row.ids for row in rows])
        mask = torch.tensor([row.attention_mask for row in rows])
        with torch.no_grad():
            found[places] = of(ids, mask).numpy()
    return found


def candidates() -> list[Record]:
    """Definitions for calibration."""
    return [{"text": text} for text, _ in _part(1)]


def deployment() -> list[Record]:
    """What stands for production: other definitions."""
    return [{"text": text} for text, _ in _part(2)]


def asked() -> list[Record]:
    """The definitions that have to be told apart, at equal distances in the file."""
    return [{"text": text} for text, _ in _spread(_part(3), ASKED)]


def kinds() -> NDArray[np.int64]:
    """Their kinds ``(n,)``, 0 to 25."""
    return np.array([kind for _, kind in _spread(_part(3), ASKED)])


def _part(number: int) -> tuple[tuple[str, int], ...]:
    return _definitions()[number::PARTS]


def _spread(some: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    step = len(some) // count
    return some[: count * step : step]


@cache
def _definitions() -> tuple[tuple[str, int], ...]:
    """Every definition that `parsed` takes, with its kind."""
    found = ((parsed(line), line) for line in noun_lines())
    return tuple((pair[1], kind(line)) for pair, line in found if pair)


def kind(line: str) -> int:
    """The kind, 0 to 25, of a line in the format of wndb(5)."""
    return int(line.split(" ", 2)[1]) - FIRST


def _tokenizer() -> Any:
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    found: Any = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    found.enable_truncation(LONGEST)
    found.enable_padding()
    return found


def _head_file() -> Path:
    """Named by what the head is made from."""
    digest = sha256(FILE.read_bytes() + f"{PARTS} {FITTED} {LONGEST} {PENALTY}".encode())
    return CACHE / f"{digest.hexdigest()[:16]}.npz"
