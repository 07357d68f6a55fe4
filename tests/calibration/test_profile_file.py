"""Nothing in a profile's file is believed that no samples can have made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from quantflow.calibration.profile.profile_file import load_profile, save_profile
from quantflow.errors import QuantflowError

from .some_profile import some_profile

KEY = "quantflow profile 2"

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]
Change = Callable[[Header, Arrays], object]


def _opened(data: bytes) -> tuple[Header, Arrays]:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][KEY])
    return header, {name: array.copy() for name, array in load(data).items()}


def _json(header: Header) -> str:
    return json.dumps(header, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _signed(header: Header, arrays: Arrays) -> bytes:
    """The file of some content, with the digest that belongs to it."""
    found = sha256(_json({**header, "sha256": ""}).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return save(arrays, {KEY: _json({**header, "sha256": found.hexdigest()})})


def _refusal(path: Path) -> str:
    with pytest.raises(QuantflowError) as caught:
        load_profile(path)
    problem = caught.value.problems[0]
    assert problem.code == "QF313" and problem.where == str(path)
    return problem.what


def _array(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda _, arrays: arrays.update({name: make(arrays[name])})


def _told(**values: object) -> Change:
    return lambda header, _: header.update(values)


def _kernel(**values: object) -> Change:
    return lambda header, _: [x.update(values) for x in header["kernels"].values()]


def _filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.full_like(x, value)


def _one_block(_: Header, arrays: Arrays) -> None:
    parts = [x for x in arrays if x.endswith(("/sums", "/sizes"))]
    for name in ("scalars", "counts/tokens", "categories/script", *parts):
        whole = np.zeros(arrays[name].shape, np.float32 if "sums" in name else np.int64)
        whole[0] = arrays[name].sum(axis=0)
        arrays[name] = whole


def _wrapped(_: Header, arrays: Arrays) -> None:
    """Four times 2**62 more, which int64 takes for nothing."""
    found = arrays["scalars"].astype(np.int64)
    found[:, :, :4] += 2**62
    arrays["scalars"] = found


def _moved(name: str, by: float) -> Change:
    return _array(name, lambda x: x + np.asarray(by, x.dtype))


NAN, INF = 0x7FC0, 0x7F80
"""Upper halves of float32."""

IMPOSSIBLE: list[tuple[Change, str]] = [
    (lambda _, arrays: arrays.pop("edges"), "lacks 'edges'"),
    (_array("scalars", lambda x: x + 1), "histograms do not add up"),
    (_array("scalars", lambda x: x * 0), "add up"),
    (_array("scalars", lambda x: x.astype(np.float32)), "counts cannot be float32"),
    (_array("scalars", lambda x: x[:, :1].copy()), "shape"),
    (_wrapped, "a count is impossible"),
    (_array("edges", lambda x: x[:, ::-1].copy()), "ascend"),
    (_array("edges", _filled(float("nan"))), "ascend"),
    (_array("edges", _filled(float("inf"))), "no bins"),
    (_array("edges", _filled(0.0)), "two of its bins are one"),
    (_moved("edges", 1000.0), "outside of it"),
    (_array("centres", _filled(float("nan"))), "outside of it"),
    (_array("centres", _filled(0.0)), "outside of it"),
    (_array("centres", lambda x: np.nan_to_num(x, nan=1.0)), "an empty bin has a centre"),
    (_array("joint/sums", lambda x: x * np.float32("nan")), "float32"),
    (_array("joint/sums", _filled(3e38)), "sums of a kernel's features are impossible"),
    (_array("joint/sums", _filled(0.0)), "sums of a kernel's features are missing"),
    (_array("joint/tail", _filled(3e38)), "sums of a kernel's features are impossible"),
    (_array("joint/tail", _filled(0.0)), "sums of a kernel's features are missing"),
    (_moved("joint/centre", 0.1), "its means are impossible"),
    (_array("inputs/centre", _filled(1e300)), "its means are impossible"),
    (_array("joint/spread", _filled(0.0)), "its spreads are impossible"),
    (_array("joint/spread", _filled(-1.0)), "its spreads are impossible"),
    (_array("joint/spread", _filled(1e300)), "its spreads are impossible"),
    (_array("categories/script", lambda x: x * 0), "categories do not add up"),
    (_array("counts/tokens", lambda x: x * 0), "counts are of other samples"),
    (_array("counts/tokens", lambda x: x.astype(np.int64) * 2**50), "a count is impossible"),
    (_array("counts/tokens", lambda x: -x.astype(np.int64)), "counts cannot be int64"),
    (_array("inputs/sizes", lambda x: x * 0), "different samples"),
    (_array("joint/sizes", lambda x: x * 2**40), "add up"),
    (_one_block, "its blocks are impossible"),
    (_told(samples=10**12), "shape"),
    (_told(distinct=40), "number of blocks"),
    (_told(distinct=0), "number of different samples"),
    (_told(effective=1e-300), "effective"),
    (_told(effective="NaN"), "effective"),
    (_told(effective=1.0), "effective"),
    (_told(effective=91.0), "effective"),
    (_told(inputs=-1), "number of inputs"),
    (_told(inputs=0), "number of inputs"),
    (_told(inputs=10**9), "number of inputs"),
    (_told(inputs="x"), "header"),
    (_told(extra=1), "header"),
    (_told(names=["f0", "f0", "f2"]), "two things have one name"),
    (_told(tensors=["x/y", "x/y"]), "two things have one name"),
    (_told(model=""), "of no model"),
    (_told(model="m" * 10_000), "too long"),
    (_told(kernels={}), "lacks 'joint'"),
    (_kernel(width=-1.0), "width"),
    (_kernel(width="NaN"), "width"),
    (_kernel(width=1e-308), "width"),
    (_kernel(width=1e308), "width"),
    (_kernel(edge="NaN"), "edge"),
    (_kernel(edge=-1.0), "edge"),
    (_kernel(edge="Infinity"), "edge"),
    (_kernel(least_density="NaN"), "density"),
    (_kernel(least_density=1e9), "density"),
    (_kernel(tail_size=-5), "tail"),
    (_kernel(tail_size=10**15), "tail"),
    (_kernel(tail_size=2**70), "tail"),
    (_array("tensors/x/y/low", lambda x: x[:3]), "shape"),
    (_array("tensors/x/y/low", lambda x: x.astype(np.float32)), "bins cannot be float32"),
    (_array("tensors/x/y/low", _filled(NAN)), "no number"),
    (_array("tensors/x/y/high", _filled(NAN)), "no number"),
    (_array("tensors/x/y/low", _filled(INF)), "above its highest"),
    (_array("tensors/x/y/high", _filled(INF)), "above its highest"),
    (_array("tensors/x/y/low", _filled(0x7F00)), "above its highest"),
    (_array("tensors/x/y/low", lambda x: np.maximum(x, 0x8000)[::-1].copy()), "order"),
    (_array("tensors/x/y/high", lambda x: x.clip(0, 0x3E80)), "not those of all"),
    (_array("tensors/x/y/high", _filled(0x7F00)), "not those of all"),
    (_array("tensors/x/y/counts", lambda x: x * 0), "positive"),
    (_array("tensors/x/y/counts", lambda x: -x.astype(np.int64)), "counts cannot be int64"),
    (_array("tensors/x/y/counts", lambda x: x.astype(np.int64) + 2**62), "a count is impossible"),
    (_array("tensors/x/y/bins", lambda x: x[::-1].copy()), "ascend"),
    (_array("tensors/x/y/inf", _filled(-5)), "counts cannot be int64"),
    (_array("tensors/x/y/inf", _filled(5)), "infinite"),
]


@pytest.mark.parametrize(("change", "reason"), IMPOSSIBLE)
def test_what_no_samples_can_have_made_is_refused(
    tmp_path: Path, change: Change, reason: str
) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    header, arrays = _opened(path.read_bytes())
    change(header, arrays)
    path.write_bytes(_signed(header, arrays))
    assert reason in _refusal(path)


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    header, arrays = _opened(path.read_bytes())
    assert len(header["sha256"]) == 64
    assert _opened(_signed(header, arrays))[0] == header


def test_a_flipped_bit_anywhere_in_the_content_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for place in np.random.default_rng(0).integers(start, len(whole), 50):
        data = bytearray(whole)
        data[place] ^= 1 << int(place) % 8
        path.write_bytes(data)
        assert "damaged" in _refusal(path)
    header, arrays = _opened(whole)
    path.write_bytes(save(arrays, {KEY: _json({**header, "source": "other"})}))
    assert "damaged" in _refusal(path)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda data: b"", "not a deployment profile"),
        (lambda data: data[: len(data) // 2], "not a deployment profile"),
        (lambda data: (2**63).to_bytes(8, "little") + data[8:], "not a deployment profile"),
        (lambda data: save({"x": np.zeros(3)}), "no header"),
        (lambda data: save({"x": np.zeros(3)}, {KEY: "{nope"}), "header"),
        (lambda data: save({"x": np.zeros(3)}, {KEY: "[" * 100_000}), "header"),
        (lambda data: save({"x": np.zeros(3)}, {"quantflow profile 1": "{}"}), "another version"),
    ],
)
def test_what_is_no_profile_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    path.write_bytes(broken(path.read_bytes()))
    assert reason in _refusal(path)


@pytest.mark.parametrize(("dtype", "size"), [("F8_E4M3", 1), ("BF16", 2), ("BOOL", 1)])
def test_types_that_numpy_lacks_are_refused(tmp_path: Path, dtype: str, size: int) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    low, high = header["edges"]["data_offsets"]
    header["edges"] |= {"dtype": dtype, "shape": [(high - low) // size]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[start:])
    assert "not a deployment profile" in _refusal(path)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open it is to wait for a writer
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        assert "no regular file" in _refusal(path)
    for path in (tmp_path / "loop", Path("nowhere")):
        assert "not a deployment profile" in _refusal(path)


def test_what_a_profile_says_of_its_source_cannot_drive_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_profile(path, some_profile())
    header, arrays = _opened(path.read_bytes())
    header["source"] = "\x1b[31mred\x1b[2J\n" + "x" * 900
    path.write_bytes(_signed(header, arrays))
    source = load_profile(path).source
    assert source.startswith("\\x1b[31mred\\x1b[2J\\nxxx") and source.endswith("x...")
    assert source.isprintable() and len(source) < 300
