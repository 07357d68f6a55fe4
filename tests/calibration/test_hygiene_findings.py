"""What the hygiene report says: repeats, leaks, samples with nothing in them, by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.artifacts.hygiene_record import Finding, HygieneReport
from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SampleInfo, sample_digest
from quantflow.calibration.hygiene.findings import NAMED, hygiene_report
from quantflow.calibration.hygiene.fingerprints import NO_FILLER, Fingerprints, fingerprints, join
from quantflow.calibration.hygiene.grouped_sets import Seen
from quantflow.calibration.hygiene.unfit import Unfit

from .tiny_tokenizer import text_inputs

Arrays = dict[str, NDArray[Any]]

_IDS = text_inputs("input_ids")
_MASKED = text_inputs("input_ids", "attention_mask")
_IMAGE = [TensorInfo(name="x", dtype="float32", shape=("batch", 3, 20, 20))]


def _prints(
    samples: Sequence[Arrays], inputs: list[TensorInfo] = _IDS, name: str = "candidates"
) -> Fingerprints:
    infos = [
        SampleInfo(id=f"{name}[{i}]", digest=sample_digest(sample))
        for i, sample in enumerate(samples)
    ]
    return fingerprints(infos, samples, inputs)


def _texts(count: int, seed: int = 0, length: int = 60) -> list[Arrays]:
    rng = np.random.default_rng(seed)
    return [{"input_ids": rng.integers(0, 30_000, length)} for _ in range(count)]


def _edited(sample: Arrays) -> Arrays:
    ids = sample["input_ids"].copy()
    ids[20] = 31_000
    return {"input_ids": ids}


def _images(count: int) -> list[Arrays]:
    rng = np.random.default_rng(1)
    return [{"x": rng.uniform(size=(3, 20, 20)).astype(np.float32)} for _ in range(count)]


def _of(report: HygieneReport, kind: str, name: str) -> Finding:
    (found,) = (x for x in report.findings if x.kind == kind and x.set == name)
    return found


def test_different_samples_give_no_finding() -> None:
    sets = {"calibration": Seen(_prints(_texts(50))), "evaluation": Seen(_prints(_texts(50, 1)))}
    report = hygiene_report(sets)
    assert report.verdict == "pass" and report.findings == ()
    figures = report.sets[0]
    assert (figures.samples, figures.different, figures.families) == (50, 50, 50)
    assert figures.effective == figures.near_effective == 50


def test_the_first_sample_appended_fifty_times_counts_once() -> None:
    report = hygiene_report({"calibration": Seen(_prints(_texts(1) * 51))})
    found = _of(report, "exact-duplicates", "calibration")
    assert report.verdict == found.verdict == "fail"
    assert found.count == 50
    assert "the effective sample size is 1.0" in found.text
    assert found.samples == tuple(f"candidates[{i}]" for i in range(NAMED))
    assert report.sets[0].effective == report.sets[0].near_effective == 1
    assert len(report.findings) == 1  # they are no near duplicates on top


def test_fifty_copies_of_one_sample_among_others_are_named_first() -> None:
    texts = _texts(101)
    texts += [texts[7]] * 4 + [texts[30]]
    found = _of(
        hygiene_report({"candidates": Seen(_prints(texts))}), "exact-duplicates", "candidates"
    )
    assert found.count == 5 and found.verdict == "warn"
    numbers = (7, 101, 102, 103, 104, 30, 105)
    assert found.samples == tuple(f"candidates[{i}]" for i in numbers)


def test_near_duplicates_warn_with_their_share_and_what_remains() -> None:
    texts = _texts(40)
    texts += [_edited(text) for text in texts[:20]]
    report = hygiene_report({"calibration": Seen(_prints(texts))})
    found = _of(report, "near-duplicates", "calibration")
    assert (found.count, found.verdict, report.verdict) == (20, "warn", "warn")
    # By Kish: 60 samples in 20 groups of two and 20 of one.
    assert report.sets[0].near_effective == pytest.approx(60**2 / (20 * 4 + 20))
    assert "33.3%" in found.text and "36.0" in found.text
    assert found.samples[:4] == (
        "candidates[0]",
        "candidates[40]",
        "candidates[1]",
        "candidates[41]",
    )


def test_production_that_repeats_itself_excuses_a_set_that_does_so_too() -> None:
    texts = _texts(10) * 3
    calibration, unlike = Seen(_prints(texts[:25])), Seen(_prints([*_texts(1) * 20, *_texts(5, 3)]))
    deployment = Seen(_prints(texts, name="deployment"))
    for one, verdict in ((calibration, "pass"), (unlike, "fail")):
        report = hygiene_report({"calibration": one, "deployment": deployment})
        assert _of(report, "exact-duplicates", "calibration").verdict == verdict
        assert _of(report, "exact-duplicates", "deployment").verdict == "pass"
    assert hygiene_report({"calibration": calibration}, usual=0.35).verdict == "pass"
    assert hygiene_report({"calibration": calibration}).verdict == "fail"


def test_calibration_data_taken_from_the_evaluation_data_is_named() -> None:
    evaluation = _texts(30, 5)
    mine = [*_texts(20), evaluation[4], _edited(evaluation[9])]
    sets = {
        "candidates": Seen(_prints(mine), passed=("candidates[70]", "candidates[9]")),
        "calibration": Seen(_prints(mine[:20])),
        "evaluation": Seen(_prints(evaluation, name="evaluation")),
    }
    report = hygiene_report(sets)
    exact = _of(report, "evaluation-overlap", "candidates")
    assert (exact.count, exact.verdict) == (3, "warn")
    assert exact.samples == ("candidates[9]", "candidates[20]", "candidates[70]")
    near = _of(report, "near-evaluation-overlap", "candidates")
    assert (near.samples, near.verdict) == (("candidates[21]",), "warn")
    assert not any(x.set == "calibration" for x in report.findings)
    assert not any(x.set == "evaluation" for x in report.findings)


def test_one_near_evaluation_sample_in_many_is_no_warning() -> None:
    evaluation = _texts(3, 5)
    sets = {
        "calibration": Seen(_prints([*_texts(150), _edited(evaluation[0])])),
        "evaluation": Seen(_prints(evaluation)),
    }
    report = hygiene_report(sets)
    found = _of(report, "near-evaluation-overlap", "calibration")
    assert (found.verdict, report.verdict, found.count) == ("pass", "pass", 1)


def test_samples_that_were_left_out_are_named_by_what_is_wrong() -> None:
    unfit = (
        Unfit("candidates[3]", "QF315", "candidates[3] holds 1 values that are NaN or Inf"),
        Unfit("candidates[12]", "QF307", "candidates[12] is empty"),
        Unfit("candidates[1]", "QF315", "candidates[1] holds 2 values that are NaN or Inf"),
    )
    report = hygiene_report({"candidates": Seen(_prints(_texts(5)), unfit=unfit)})
    finite = _of(report, "not-finite", "candidates")
    assert finite.samples == ("candidates[1]", "candidates[3]")
    assert _of(report, "no-content", "candidates").samples == ("candidates[12]",)
    assert report.verdict == "warn" and report.sets[0].unfit == 3


def test_constant_samples_warn_and_are_no_near_duplicates() -> None:
    images = _images(20)
    images[4] = {"x": np.zeros((3, 20, 20), np.float32)}
    images[9] = {"x": np.ones((3, 20, 20), np.float32)}
    report = hygiene_report({"candidates": Seen(_prints(images, _IMAGE))})
    found = _of(report, "constant", "candidates")
    assert found.samples == ("candidates[4]", "candidates[9]")
    assert found.verdict == "warn" and "'x'" in found.text
    assert len(report.findings) == 1 and report.sets[0].families == 20


def test_token_types_are_meant_to_be_constant_and_padding_does_not_hide_a_constant() -> None:
    inputs = [*_MASKED, *text_inputs("token_type_ids")]
    samples = [
        {
            "input_ids": np.concatenate([text["input_ids"], [0] * 4]),
            "attention_mask": np.repeat([1, 0], [60, 4]),
            "token_type_ids": np.zeros(64, np.int64),
        }
        for text in _texts(10)
    ]
    samples[3] = {**samples[3], "input_ids": np.repeat([7, 0], [60, 4])}
    report = hygiene_report({"candidates": Seen(_prints(samples, inputs))})
    assert [x.samples for x in report.findings] == [("candidates[3]",)]


def test_padding_without_a_mask_is_noticed() -> None:
    padded = [
        {"input_ids": np.concatenate([text["input_ids"][: 50 - i], [9] * (2 + i)])}
        for i, text in enumerate(_texts(30))
    ]
    report = hygiene_report({"candidates": Seen(_prints(padded))})
    found = _of(report, "missing-mask", "candidates")
    assert found.count == 30 and "token 9" in found.text and found.verdict == "warn"
    left = [{"input_ids": sample["input_ids"][::-1].copy()} for sample in padded]
    assert _of(hygiene_report({"x": Seen(_prints(left))}), "missing-mask", "x").count == 30
    assert set(_prints(_texts(9)).filler.tolist()) == {NO_FILLER}


def test_padding_that_the_mask_keeps_is_noticed() -> None:
    # C27: rows padded to one length by zeros, with a mask that is 1 everywhere, then a true one.
    rng = np.random.default_rng(3)
    lengths = rng.integers(10, 100, 64)
    rows = [
        np.where(np.arange(128) < n, text["input_ids"] + 1, 0)
        for n, text in zip(lengths, _texts(64, length=128), strict=True)
    ]
    dropped = [{"input_ids": row, "attention_mask": np.ones(128, np.int64)} for row in rows]
    report = hygiene_report({"calibration": Seen(_prints(dropped, _MASKED))})
    found = _of(report, "missing-mask", "calibration")
    assert (found.count, found.verdict, report.verdict) == (64, "warn", "warn")
    assert "their mask keeps it" in found.text and "token 0" in found.text
    marked = [{"input_ids": row, "attention_mask": (row != 0).astype(np.int64)} for row in rows]
    assert hygiene_report({"calibration": Seen(_prints(marked, _MASKED))}).findings == ()
    # Few samples with a repeated token are no padding.
    mixed = [*dropped[:31], *marked[31:]]
    assert hygiene_report({"calibration": Seen(_prints(mixed, _MASKED))}).findings == ()


@pytest.mark.parametrize("end", [[5], [5, 5], [198, 198, 5]])
def test_a_true_end_of_text_is_no_padding(end: list[int]) -> None:
    # The padding token may be the end of the text, and texts may end in two line breaks.
    samples = list[Arrays]()
    for i, text in enumerate(_texts(40)):
        ids = np.concatenate([text["input_ids"][: 20 + i], end, [5] * (40 - i)])
        mask = (np.arange(len(ids)) < 20 + i + len(end)).astype(np.int64)
        samples.append({"input_ids": ids, "attention_mask": mask})
    assert hygiene_report({"calibration": Seen(_prints(samples, _MASKED))}).findings == ()
    alone = [{"input_ids": x["input_ids"][x["attention_mask"] == 1]} for x in samples]
    assert hygiene_report({"calibration": Seen(_prints(alone))}).findings == ()


def test_padding_does_not_make_texts_alike() -> None:
    samples = [
        {
            "input_ids": np.concatenate([text["input_ids"][:4], np.zeros(200, np.int64)]),
            "attention_mask": np.repeat([1, 0], [4, 200]),
        }
        for text in _texts(30)
    ]
    assert hygiene_report({"calibration": Seen(_prints(samples, _MASKED))}).findings == ()


def test_positions_and_token_types_do_not_make_texts_alike() -> None:
    inputs = text_inputs("position_ids", "input_ids", "token_type_ids")
    same = {"position_ids": np.arange(60), "token_type_ids": np.zeros(60, np.int64)}
    samples = [{**same, **text} for text in _texts(30)]
    assert _prints(samples, inputs).signatures.shape == (30, 64)
    report = hygiene_report({"calibration": Seen(_prints(samples, inputs))})
    assert report.findings == ()
    samples += [{**same, **_edited(text)} for text in _texts(10)]
    report = hygiene_report({"calibration": Seen(_prints(samples, inputs))})
    assert _of(report, "near-duplicates", "calibration").count == 10


def test_near_duplicate_pictures_are_found_in_either_layout() -> None:
    images = [np.repeat(np.repeat(x["x"], 4, 1), 5, 2) for x in _images(30)]
    images += [image * 0.9 + 0.05 for image in images[:6]]
    first = TensorInfo(name="x", dtype="float32", shape=("batch", 3, "height", "width"))
    last = first.model_copy(update={"shape": ("batch", "height", "width", 3)})
    for info, axes in ((first, (0, 1, 2)), (last, (1, 2, 0))):
        prints = _prints([{"x": image.transpose(axes)} for image in images], [info])
        assert _of(hygiene_report({"x": Seen(prints)}), "near-duplicates", "x").count == 6


def test_fingerprints_are_small_and_can_be_taken_and_joined() -> None:
    texts = _texts(20)
    whole = _prints(texts)
    arrays = (whole.signatures, whole.constant, whole.filler, whole.run)
    assert sum(array.nbytes for array in arrays) / len(whole) < 300
    parts = join([whole.take(range(5)), whole.take(range(5, 20))])
    assert parts.infos == whole.infos
    for name in ("signatures", "constant", "filler", "run"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert whole.take([3]).infos[0].id == "candidates[3]"
    assert len(_prints([])) == 0
    assert hygiene_report({"candidates": Seen(_prints([]))}).verdict == "pass"
    assert hygiene_report({}).sets == ()


@settings(max_examples=20)
@given(order=st.permutations(range(24)))
def test_the_report_does_not_depend_on_the_order_of_the_samples(order: list[int]) -> None:
    texts = _texts(12)
    texts += [_edited(text) for text in texts[:6]] + texts[3:9]
    prints, evaluation = _prints(texts), _prints([texts[2], _edited(texts[11])], name="evaluation")
    sets = {"calibration": Seen(prints), "evaluation": Seen(evaluation)}
    shuffled = {**sets, "calibration": Seen(prints.take(order))}
    assert hygiene_report(shuffled) == hygiene_report(sets)


def test_the_report_is_written_and_read(tmp_path: Path) -> None:
    report = hygiene_report({"calibration": Seen(_prints(_texts(1) * 3))})
    report.write(tmp_path / "hygiene.json")
    assert HygieneReport.read(tmp_path / "hygiene.json") == report
