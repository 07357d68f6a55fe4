"""User functions come from the configuration's own directory, and errors name the cause."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantflow.errors import QuantflowError
from quantflow.user_code import load_function, source_digest


@pytest.fixture(autouse=True)
def _clean_path() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path


def _problem(name: str, base: Path) -> str:
    with pytest.raises(QuantflowError) as caught:
        load_function(name, base)
    assert caught.value.problems[0].code == "QF105"
    return str(caught.value)


def test_two_configurations_with_files_of_one_name_get_their_own(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "qf_model.py").write_text("from qf_helper import name\n")
        (tmp_path / folder / "qf_helper.py").write_text(f"def name(): return {folder!r}\n")
    for folder in ("one", "two", "one"):
        assert load_function("qf_model:name", tmp_path / folder)() == folder


def test_a_module_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "qf_counter.py").write_text(
        "calls = []\ndef add(): calls.append(1); return calls\n"
    )
    load_function("qf_counter:add", tmp_path)()
    assert load_function("qf_counter:add", tmp_path)() == [1, 1]


def test_a_module_is_imported_anew_when_its_source_or_a_helpers_has_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "qf_main.py").write_text("from qf_part import value\ndef f(): return value\n")
    for value in (1, 22, 333):  # of different lengths, since bytecode is cached by size and time
        (tmp_path / "qf_part.py").write_text(f"value = {value}\n")
        assert load_function("qf_main:f", tmp_path)() == value


def test_modules_inside_packages_and_installed_modules_are_found(tmp_path: Path) -> None:
    (tmp_path / "qf_package").mkdir()
    (tmp_path / "qf_package" / "__init__.py").write_text("")
    (tmp_path / "qf_package" / "inner.py").write_text("def f(): return 5\n")
    assert load_function("qf_package.inner:f", tmp_path)() == 5
    assert load_function("json.encoder:py_encode_basestring", tmp_path)("a") == '"a"'


def test_the_digest_follows_the_module_and_its_local_imports_and_runs_no_code(
    tmp_path: Path,
) -> None:
    files = {
        "qf_top.py": "raise SystemExit\nimport qf_a, numpy\nfrom qf_pkg import b\n",
        "qf_a.py": "import qf_top\n",
        "qf_pkg/__init__.py": "",
        "qf_pkg/b.py": "from .c import x\nfrom . import d\n",
        "qf_pkg/c.py": "",
        "qf_pkg/d.py": "",
        "qf_unrelated.py": "",
    }
    (tmp_path / "qf_pkg").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    first = source_digest("qf_top:f", tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text + "# changed\n")
        changed = source_digest("qf_top:f", tmp_path) != first
        assert changed == (name != "qf_unrelated.py"), name
        (tmp_path / name).write_text(text)
    assert source_digest("qf_top:f", tmp_path) == first
    assert "qf_top" not in sys.modules


def test_the_digest_of_a_lone_module_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "qf_lone.py").write_text("import os\n")
    assert source_digest("qf_lone:f", tmp_path) == hashlib.sha256(b"import os\n").hexdigest()
    assert len(source_digest("json.encoder:f", tmp_path)) == 64


def test_errors_name_the_cause(tmp_path: Path) -> None:
    (tmp_path / "qf_broken.py").write_text("import qf_does_not_exist\n")
    (tmp_path / "qf_exits.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "qf_fine.py").write_text("def encoder(): ...\n")
    (tmp_path / "calendar.py").write_text("def f(): ...\n")
    assert "no module 'qf_absent'" in _problem("qf_absent:f", tmp_path)
    assert "No module named 'qf_does_not_exist'" in _problem("qf_broken:f", tmp_path)
    assert "SystemExit: 3" in _problem("qf_exits:f", tmp_path)
    assert "did you mean 'encoder'?" in _problem("qf_fine:encodr", tmp_path)
    assert "rename the file" in _problem("calendar:f", tmp_path)


def test_modules_of_the_project_are_kept_when_the_directory_holds_it(tmp_path: Path) -> None:
    (tmp_path / "qf_other.py").write_text("def f(): return 1\n")
    project = Path(__file__).parents[1]
    load_function("quantflow.numerics.rounding:round_fp16", project)
    kept = sys.modules["quantflow.numerics.rounding"]
    load_function("qf_other:f", tmp_path)
    assert sys.modules["quantflow.numerics.rounding"] is kept
