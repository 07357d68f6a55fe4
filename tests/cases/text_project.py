"""A small text model with a tokenizer, and texts of two kinds, for the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

LENGTH, WIDTH = 64, 16

ENGLISH = sorted(
    {
        *("the", "model", "reads", "what", "people", "write", "answers", "words", "every", "day"),
        *("others", "see", "them", "again", "when", "they", "come", "home", "from", "work", "or"),
    }
)
CHINESE = list("的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会")

CONFIG = """
[run]
directory = "run"
[model]
onnx = "model.onnx"
[target]
buckets = [{ batch = 8 }]
[set]
samples = 48
heldout_samples = 32
evaluation_samples = 8
deployment_samples = 100
candidates = { kind = "jsonl", path = "candidates.jsonl" }
deployment = { kind = "jsonl", path = "deployment.jsonl" }
[set.preprocess]
tokenizer = "tokenizer.json"
max_length = 64
pad = "max_length"
[runtime]
threads = 1
[quantization]
estimator = "minmax"
"""


def texts(words: Sequence[str], lengths: tuple[int, int], count: int, seed: int) -> list[str]:
    """Texts of so many words, drawn by chance; the upper limit is not reached."""
    rng = np.random.default_rng(seed)
    space = " " if len(words[0]) > 1 else ""
    return [space.join(rng.choice(list(words), rng.integers(*lengths))) for _ in range(count)]


def write_texts(path: Path, lines: Sequence[str]) -> Path:
    """Texts as JSON lines."""
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def write_text_project(
    directory: Path, candidates: Sequence[str], deployment: Sequence[str]
) -> Path:
    """Write model, tokenizer, texts and configuration; returns the configuration's path.

    Embeddings of Chinese characters are twice as large as those of English words, and what a layer
    sees grows with the position of a token.
    """
    vocabulary = {word: i for i, word in enumerate(("[PAD]", "[UNK]", *ENGLISH, *CHINESE))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()  # each Chinese character is a word
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_model(directory / "model.onnx", len(vocabulary))
    write_texts(directory / "candidates.jsonl", candidates)
    write_texts(directory / "deployment.jsonl", deployment)
    config = directory / "quantflow.toml"
    config.write_text(CONFIG)
    return config


def _write_model(path: Path, vocabulary: int) -> None:
    rng = np.random.default_rng(0)
    embedding = rng.uniform(-1, 1, (vocabulary, WIDTH)).astype(np.float32)
    embedding[2 + len(ENGLISH) :] *= 2
    growth = np.repeat(np.linspace(1, 3, LENGTH, dtype=np.float32)[:, None], WIDTH, axis=1)
    constants = {
        "embedding": embedding,
        "growth": growth[None],
        "w0": (rng.normal(size=(WIDTH, 32)) / 4).astype(np.float32),
        "w1": (rng.normal(size=(32, 8)) / 6).astype(np.float32),
        "last": np.int64([-1]),
    }
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["e"], name="embed"),
        helper.make_node("Mul", ["e", "growth"], ["g"], name="grow"),
        helper.make_node("MatMul", ["g", "w0"], ["a0"], name="first"),
        helper.make_node("Relu", ["a0"], ["r0"], name="relu"),
        helper.make_node("MatMul", ["r0", "w1"], ["a1"], name="second"),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Unsqueeze", ["m", "last"], ["u"], name="unsqueeze"),
        helper.make_node("Mul", ["a1", "u"], ["y"], name="keep"),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", LENGTH])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", LENGTH, 8])
    graph = helper.make_graph(
        nodes,
        "text",
        inputs,
        [output],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
