"""What leaves production: where samples come from and how many, but none of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantflow.calibration.profile.leaving import leaving, short_source
from quantflow.errors import QuantflowError
from quantflow.printable import printable

from .drift_tables import profile, table
from .some_profile import some_profile


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("jsonl /home/A B/day 1.jsonl, seed 0", "jsonl day 1.jsonl, seed 0"),
        ("imagefolder /data/photos/, seed 3", "imagefolder photos, seed 3"),
        ("csv C:\\data\\x.csv, seed 0", "csv x.csv, seed 0"),
        ("parquet package:some/rest/of.parquet, seed 0", "parquet of.parquet, seed 0"),
        ("function data:deployment, seed 0", "function data:deployment, seed 0"),
        ("npz /a/b.npz, seed 0; 1 left out: c[3]", "npz b.npz, seed 0; 1 left out: c[3]"),
        ("npz /a/b.npz", "npz b.npz"),
        ("s", "s"),
    ],
)
def test_the_last_part_of_a_path_is_kept(given: str, expected: str) -> None:
    assert short_source(given) == expected


def test_thirty_two_different_samples_may_leave() -> None:
    x = np.random.default_rng(0).standard_normal((32, 2))
    made = leaving(profile(table(x)), ())
    assert made.samples == 32 and made.block_sizes.tolist() == [4] * 8
    digests = tuple(str(i // 2) for i in range(32))
    with pytest.raises(QuantflowError, match=r"QF308.*only 16 of the 32 samples"):
        leaving(profile(table(x, digests=digests)), ())


def test_inputs_outputs_and_ids_stay() -> None:
    whole = replace(some_profile(), source="npz b.npz, seed 0; 1 left out, empty: a[3]")
    assert list(leaving(whole, {"z"}).tensors) == ["x/y"]
    made = leaving(whole, {"x/y"})
    assert not made.tensors and made.source == "npz b.npz, seed 0; 1 left out, empty"


def test_what_is_printed_has_no_control_characters_and_an_end() -> None:
    assert printable("\x1b[2Jé\u202e\n") == "\\x1b[2Jé\\u202e\\n"
    assert printable("x" * 300, 10) == "xxxxxxx..."
