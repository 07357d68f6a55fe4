"""Torch modules that are exported in tests."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class RmsNorm(nn.Module):
    """Root mean square normalization in elementary operations, as Llama has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of ``(B, H, L, D)``."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


class Attention(nn.Module):
    """Causal attention with grouped key and value heads."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        q = rotate(split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        v = split(self.v_proj(x), self.kv_heads)
        repeat = self.heads // self.kv_heads
        k = k.repeat_interleave(repeat, dim=1)
        v = v.repeat_interleave(repeat, dim=1)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        y = torch.softmax(scores, dim=-1) @ v
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Module):
    """SiLU-gated feed-forward network."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One decoder layer."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(width)
        self.self_attn = Attention(width, heads, kv_heads)
        self.post_attention_layernorm = RmsNorm(width)
        self.mlp = GatedMlp(width, 2 * width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Llama in small: grouped heads, RoPE, RMSNorm, gated FFN, head tied to the embedding."""

    def __init__(self, vocabulary: int = 40, width: int = 32, layers: int = 1) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, 4, 2) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.embed_tokens.weight
        size = width // 4
        frequencies = 10000 ** (-torch.arange(0, size, 2).float() / size)
        self.register_buffer("inv_freq", frequencies)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        batch, length = input_ids.shape
        positions = torch.arange(length, device=input_ids.device)
        # A product of two matrices, as transformers writes it.
        spread = self.inv_freq[None, :, None].expand(batch, -1, 1)
        angles = (spread @ positions[None, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        causal = positions[None, :] <= positions[:, None]
        allowed = causal[None, None] & attention_mask[:, None, None, :].bool()
        mask = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        return self.lm_head(self.norm(x))


class CrossAttention(nn.Module):
    """A decoder that attends to an encoder's output, with layer names that say nothing."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(24, width)
        self.c = nn.Linear(24, width)
        self.d = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        def split(y: Tensor) -> Tensor:
            return y.view(y.shape[0], -1, 2, 8).transpose(1, 2)

        q, k, v = split(self.a(x)), split(self.b(memory)), split(self.c(memory))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        y = self.norm(x + self.d(y.transpose(1, 2).reshape(x.shape)))
        return y, y.mean(1)


class Clash(nn.Module):
    """A module whose interior value is called like the user's output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x) * 2).sum(-1)


class PassThrough(nn.Module):
    """Returns its input, one value twice, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = self.layer(x)
        return x, y, y, torch.ones(3)


class FixedLength(nn.Module):
    """A module that only takes one length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.position = nn.Parameter(torch.zeros(9, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x + self.position)


class Failing(nn.Module):
    """A module that cannot be exported."""

    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) > 0:
            raise ValueError("data-dependent trouble")
        return x


class Twice(nn.Module):
    """One layer that is called twice, in train mode, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.relu(self.drop(self.layer(x))))
