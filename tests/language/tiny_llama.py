"""A Llama of two layers with tied embeddings, whose hidden states leave fp16 when squared.

It lies in the folder of a project of its own, and the texts are its own: drawn from what it
foretells, so that there is something to lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

WORDS, LENGTH, TEXTS = 61, 24, 60
SPREAD = {"embed": 60, "o_proj": 5, "down_proj": 5}
"""Standard deviation of the weights that hidden states are made of: squares pass 65504, means of
squares do not."""


class CausalLM(nn.Module):
    """From token ids to logits."""

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        self.model, self.lm_head = language_model.model, language_model.lm_head

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.model(input_ids=input_ids, use_cache=False).last_hidden_state)


def build() -> nn.Module:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    model = CausalLM(LlamaForCausalLM(config)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(std=next((x for part, x in SPREAD.items() if part in name), 0.3))
        model.model.norm.weight.fill_(0.007)  # logits of a few units for all that
    return model


def texts() -> Iterator[dict[str, Any]]:
    """Token ids, word after word as the model foretells them."""
    model, generator = build(), torch.Generator().manual_seed(1)
    ids = torch.randint(WORDS, (TEXTS, 1), generator=generator)
    with torch.no_grad():
        while ids.shape[1] < LENGTH:
            chances = model(ids)[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=generator)], dim=1)
    for row in ids.numpy():
        yield {"input_ids": row}
