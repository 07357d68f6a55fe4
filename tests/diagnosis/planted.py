"""Projects with one fault each, planted so that the cause is known by construction.

The sound network has weights that int8 holds exactly (-1, 0, 1 times one number), so that its only
loss is the rounding of activations, equally in all of its layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from quantflow.artifacts.diagnosis_record import DiagnosisRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.evaluation.asked import Asked, Missed
from quantflow.progress import Progress, no_progress
from quantflow.stages.diagnosis import FOLDER, diagnosis_stage
from quantflow.stages.pipeline import StageOutcome, run_stage
from tests.graph.models import build, rand
from tests.sensitivity.projects import context_of, run_until, write_project

WIDTH, LAYERS, SAMPLES = 24, 8, 64

SIZES = """
[plan]
policy = "none"
[optimize]
shift = false
smoothing = false
rounding = false
bias_correction = false
"""

Arrays = Mapping[str, np.ndarray]


def weights(layers: int = LAYERS) -> dict[str, np.ndarray]:
    """Ternary matrices that keep the size of what they are multiplied with about the same."""
    rng = np.random.default_rng(0)
    scale = np.float32(np.sqrt(1.5 / WIDTH))
    shape = (WIDTH, WIDTH)
    return {f"w{i}": rng.integers(-1, 2, shape).astype(np.float32) * scale for i in range(layers)}


def chain(
    before: Mapping[int, str] | None = None,
    after: Mapping[int, str] | None = None,
    activation: str = "Tanh",
) -> str:
    """Layers ``m0``, ``m1``, ... with an activation after each.

    Args:
        before: by layer, nodes that make ``t<i>`` of ``h<i>``, which the layer reads.
        after: by layer, nodes that make ``a<i>`` of ``m<i>``, which the activation reads.
        activation: op type, but for the last one, which is Tanh.
    """
    nodes, last = list[str](), "x"
    for i in range(LAYERS):
        read, made = last, f"m{i}"
        if before and i in before:
            nodes.append(before[i].replace(f"h{i}", last))
            read = f"t{i}"
        nodes.append(f"m{i} = MatMul({read}, w{i})")
        if after and i in after:
            nodes.append(after[i])
            made = f"a{i}"
        last = f"r{i}" if i < LAYERS - 1 else "y"
        nodes.append(f"{last} = {activation if i < LAYERS - 1 else 'Tanh'}({made})")
    text = " ".join(nodes)
    return f"(float[batch,{WIDTH}] x) => (float[batch,{WIDTH}] y) {{ {text} }}"


def project(
    directory: Path,
    model: onnx.ModelProto,
    *,
    scale: float = 1.0,
    production: float | None = None,
    more: str = "",
    settings: str = SIZES,
) -> Path:
    """A project of uniform samples; `production` is the size of those of deployment."""
    rng = np.random.default_rng(1)

    def drawn(size: float) -> np.ndarray:
        return (rng.uniform(-1.7, 1.7, (300, WIDTH)) * size).astype(np.float32)

    config = write_project(directory, model, {"x": drawn(scale)}, {"batch": 8}, settings + more)
    text = config.read_text()
    for name in ("samples = 12", "heldout_samples = 10", "evaluation_samples = 10"):
        text = text.replace(name, f"{name.partition(' ')[0]} = {SAMPLES}")
    if production is not None:
        np.savez(directory / "deployment.npz", x=drawn(production))
        text += '\n[set.deployment]\nkind = "npz"\npath = "deployment.npz"\n'
    config.write_text(text)
    return config


def sound() -> onnx.ModelProto:
    """Nothing wrong but that activations have 8 bits; they are heavy-tailed, and bounded."""
    step = "s{i} = Mul(h{i}, h{i}) c{i} = Mul(s{i}, h{i}) t{i} = Mul(c{i}, gain)"
    cubes = {i: step.replace("{i}", str(i)) for i in range(1, LAYERS)}
    return build(chain(cubes), weights() | {"gain": np.float32(3)})


def parallel() -> onnx.ModelProto:
    """Twelve layers side by side, each with a heavy-tailed activation of its own.

    The activations are alike but for signs, and the weights are held exactly: every layer has a
    twelfth of the loss, all of it by the 8 bits of its activation.
    """
    given, nodes, count = weights(12), list[str](), 12
    for i in range(count):
        given[f"d{i}"] = np.sign(rand(WIDTH, seed=10 + i))
        nodes += [f"v{i} = Mul(q, d{i})", f"m{i} = MatMul(v{i}, w{i})"]
    made = ", ".join(f"m{i}" for i in range(count))
    ninth = "a = Mul(x, x) b = Mul(a, a) c = Mul(b, b) q = Mul(c, x)"
    text = " ".join([ninth, *nodes, f"y = Concat<axis=-1>({made})"])
    outputs = f"float[batch,{count * WIDTH}] y"
    return build(f"(float[batch,{WIDTH}] x) => ({outputs}) {{ {text} }}", given)


def scalable() -> onnx.ModelProto:
    """Values grow with the inputs in every layer."""
    return build(chain(activation="Relu"), weights())


def uneven_weights() -> onnx.ModelProto:
    """Output channels of layers 1 to 4 differ a thousandfold; a Mul makes up for it."""
    given, size = weights(), np.logspace(-3, 0, WIDTH).astype(np.float32)
    steps = dict[int, str]()
    for i in range(1, 5):
        given[f"w{i}"] = given[f"w{i}"] * size
        steps[i] = f"a{i} = Mul(m{i}, made_up)"
    return build(chain(after=steps), given | {"made_up": 1 / size})


def loud_channels() -> onnx.ModelProto:
    """Layer 3 alone reads eight channels 254 times as large as the others, and needs them all.

    Their weights are one step of int8, so that what they add is of the others' size.
    """
    given = weights()
    step = np.abs(given["w3"]).max() / np.float32(127)
    given["pick"] = rand(WIDTH, 8, seed=5, scale=0.3)
    given["loud"] = np.float32(254)
    rows = np.sign(rand(8, WIDTH, seed=6)) * step
    given["w3"] = np.concatenate([given["w3"], rows.astype(np.float32)])
    made = "p3 = MatMul(h3, pick) n3 = Tanh(p3) l3 = Mul(n3, loud) t3 = Concat<axis=-1>(h3, l3)"
    return build(chain({3: made}), given)


def smoothable() -> onnx.ModelProto:
    """A channel that is much larger than the rest, which the optimization evens out."""
    w0, w1 = rand(WIDTH, 24), rand(24, 8, seed=1)
    w0[:, 3] *= 60
    w1[3] *= 0.02
    return build(
        f"(float[batch,{WIDTH}] x) => (float[batch,6] y) {{ a = Gemm(x, w0, b0) r = Relu(a) "
        "m = MatMul(r, w1) c = Add(m, b1) t = Relu(c) y = MatMul(t, w2) }",
        {
            "w0": w0, "b0": rand(24, seed=2), "w1": w1, "b1": rand(8, seed=3),
            "w2": rand(8, 6),
        },
    )  # fmt: skip


def overflowing() -> onnx.ModelProto:
    """Before layer 2 values reach a million, and are taken back."""
    step = "b2 = Mul(h2, up) c2 = Mul(b2, up) d2 = Mul(c2, down) t2 = Mul(d2, down)"
    scales = {"up": np.float32(1000), "down": np.float32(1e-3)}
    return build(chain({2: step}), weights() | scales)


def vanishing() -> onnx.ModelProto:
    """Before layer 2 values go below what fp16 holds, and are taken back: no island is for that."""
    step = "b2 = Mul(h2, down) c2 = Mul(b2, down) d2 = Mul(c2, up) t2 = Mul(d2, up)"
    scales = {"up": np.float32(4000), "down": np.float32(1 / 4000)}
    return build(chain({2: step}), weights() | scales)


TIGHT = "budget.cosine_mean=0.999999"
"""A budget that the sound network misses by the rounding of activations alone."""


def diagnose(
    config: Path,
    *overrides: str,
    samples: int = 32,
    anyway: bool = False,
    missed: Missed | None = None,
    progress: Progress = no_progress,
    force: bool = False,
) -> StageOutcome:
    """Run the diagnosis."""
    context = context_of(config, *overrides, progress=progress, force=force)
    return run_stage(context, diagnosis_stage(Asked(samples, anyway, missed)))


def without_islands(config: Path) -> None:
    """What a person may do to a plan."""
    path = config.parent / "run" / "30_sweep" / "plan.json"
    plan = PrecisionPlan.read(path)
    assert plan.islands
    plan.model_copy(update={"islands": ()}).write(path)


def diagnosed(
    config: Path, *overrides: str, last: str = "20_ranges", samples: int = 16
) -> DiagnosisRecord:
    """Run all stages up to one, then the diagnosis; what it found."""
    run_until(last, config, *overrides)
    diagnose(config, *overrides, samples=samples)
    return read(config)


def removed(found: DiagnosisRecord, name: str) -> float:
    """Share of the loss that an experiment removes."""
    (share,) = (x.removed for x in found.experiments if x.name == name)
    assert share is not None
    return share.value


def read(config: Path) -> DiagnosisRecord:
    """What it wrote."""
    return DiagnosisRecord.read(config.parent / "run" / FOLDER / "diagnosis.json")
