"""The note of what stages were made with."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import value_digest
from quantflow.artifacts.provenance import (
    PROVENANCE,
    Made,
    Provenance,
    read_provenance,
)


def made(configuration: dict[str, object]) -> Made:
    return Made(
        outputs="digest",
        configuration=value_digest(configuration),
        versions={"python": "3"},
        platform="Linux x86_64",
        session={},
        seed=0,
    )


def test_a_configuration_goes_with_the_last_stage_that_names_it() -> None:
    old, new = {"a": 1}, {"a": 2}
    found = Provenance().with_stage("00_model", made(old), old)
    found = found.with_stage("10_set", made(new), new)
    assert list(found.configurations.values()) == [old, new]
    found = found.with_stage("00_model", made(new), new)
    assert list(found.configurations.values()) == [new]
    assert set(found.stages) == {"00_model", "10_set"}


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    tree = {"x": {"y": [1, "two", None, 0.5]}}
    found = Provenance().with_stage("00_model", made(tree), tree)
    found.write(tmp_path / PROVENANCE)
    assert read_provenance(tmp_path) == found


def test_nothing_readable_is_no_error(tmp_path: Path) -> None:
    assert read_provenance(tmp_path) == Provenance()
    (tmp_path / PROVENANCE).write_text('{"stages": 3}')
    assert read_provenance(tmp_path) == Provenance()


def test_a_note_of_other_results_does_not_count() -> None:
    found = Provenance().with_stage("00_model", made({}), {}).with_stage("10_set", made({}), {})
    assert set(found.of({"00_model": "digest", "10_set": "another"}).stages) == {"00_model"}
