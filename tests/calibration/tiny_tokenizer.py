"""A WordPiece tokenizer of seven words, and a text model's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from quantflow.artifacts.model_record import TensorInfo

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5, "blue": 6}


def write_tokenizer(
    path: Path, *, pad: str = "[PAD]", padding: dict[str, Any] | None = None
) -> None:
    """Write a tokenizer.json whose token 0 is called `pad`; texts become ``[CLS] words [SEP]``."""
    vocabulary = {pad if token == "[PAD]" else token: i for token, i in VOCABULARY.items()}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    if padding:
        tokenizer.enable_padding(**padding)
    tokenizer.save(str(path))


def text_inputs(*names: str, length: int | str = "length") -> list[TensorInfo]:
    """Integer inputs ``(batch, length)``; one called attention_mask is the mask."""
    return [
        TensorInfo(name=n, dtype="int64", shape=("batch", length), mask=n == "attention_mask")
        for n in names
    ]
