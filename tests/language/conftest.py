"""The tiny Llama as a project, run once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

CONFIG = """
[run]
directory = "run"
[model]
factory = "tiny_llama:build"
outputs = ["logits"]
[model.inputs.input_ids]
dtype = "int64"
shape = ["batch", "length"]
[target]
buckets = [{ batch = 2, length = 24 }]
[set]
samples = 24
heldout_samples = 12
evaluation_samples = 13
candidates = { kind = "function", function = "tiny_llama:texts" }
[plan]
metric = "perplexity"
samples = 6
[budget]
cosine_mean = 0.99
perplexity_rise_fraction = 0.2
[task]
kind = "perplexity"
[runtime]
threads = 1
batch = 4
"""


@pytest.fixture(scope="package")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The project's configuration."""
    folder = tmp_path_factory.mktemp("tiny_llama")
    shutil.copy(Path(__file__).parent / "tiny_llama.py", folder)
    path = folder / "quantflow.toml"
    path.write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))  # without atc
        yield path
