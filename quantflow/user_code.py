"""Running a user's own function, named ``module:function`` in the configuration.

Only a configuration's own names ever run code. Its directory comes first on `sys.path`, as if a
script ran there. When another configuration's directory takes over in the same process, the modules
that came from the former one are forgotten, so that two files called `model.py` never get mixed up.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from quantflow.errors import did_you_mean, fail

_entered: list[str] = []
"""The configuration's directory that was put first on the path, if any."""

_local: set[str] = set()
"""Top-level modules that came from that directory."""

_digests: dict[str, str] = {}
"""Source digest of every module that was asked for, when it was imported."""


def load_function(name: str, base: Path) -> Callable[..., Any]:
    """Import the function that ``module:function`` names.

    Args:
        name: as in the configuration.
        base: directory of the configuration, searched first.

    Raises:
        QuantflowError: QF105 when the module is not found, raises on import, shares its name with
            another module, or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    digest = source_digest(name, base)
    if _digests.get(module_name, digest) != digest:
        _forget()  # edited since, as in a notebook
    _digests[module_name] = digest
    before = set(sys.modules)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # scripts may well call sys.exit
        what = f"importing module {module_name!r} raised {type(error).__name__}: {error}"
        fail("QF105", what, where=name, fix="mend the module; the traceback shows the line")
    finally:
        _note_local(set(sys.modules) - before, base.resolve())
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [key for key, value in vars(module).items() if callable(value)]
        what = f"module {module_name!r} has no function {function_name!r}"
        fail("QF105", what, where=name, fix=did_you_mean(function_name, callables))
    return function


def source_digest(name: str, base: Path) -> str:
    """SHA-256 of a module's source and of all it imports from beside the configuration.

    Imports are read from the source, so that no code runs; installed modules are not followed.

    Raises:
        QuantflowError: QF105 when the module is not found or shares its name with another one.
    """
    start = _locate(name, base)
    base = base.resolve()
    digest = hashlib.sha256(start.read_bytes())
    files = {start}
    todo = _imported(name.partition(":")[0], start)
    while todo:
        module = todo.pop()
        file = _source(module, PathFinder.find_spec(module.partition(".")[0], [str(base)]))
        if file is not None and file not in files:
            files.add(file)
            todo |= _imported(module, file)
    for file in sorted(files - {start}):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(base)} {content}".encode())
    return digest.hexdigest()


def _imported(module: str, file: Path) -> set[str]:
    """Names that may be modules in the import statements of a file, and the packages it lies in."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    parts = package.split(".") if package else []
    above = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return above | _names_imported(file.read_bytes(), package)


@lru_cache(maxsize=256)  # a run asks for the same few files over and over
def _names_imported(source: bytes, package: str) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()  # importing it will say so
    parts = package.split(".") if package else []
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level <= len(parts):
            above = parts[: len(parts) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            names |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
    return frozenset(names)


def _locate(name: str, base: Path) -> Path:
    """The source file of a module, found without running its code; `base` comes first."""
    module = name.partition(":")[0]
    top = module.partition(".")[0]
    base = base.resolve()
    _enter(base)
    importlib.invalidate_caches()
    local = _source(module, PathFinder.find_spec(top, [str(base)]))
    if local is None:
        installed = _source(module, _installed_spec(top))
        if installed is None:
            fix = "check the name, or put the file beside the configuration"
            fail("QF105", f"no module {module!r} in {base} or installed", where=name, fix=fix)
        return installed
    loaded = sys.modules.get(top)
    elsewhere = loaded is not None and not _lies_in(loaded, base)
    if elsewhere or top in sys.stdlib_module_names:
        fail("QF105", f"another module is called {top!r} too", where=name, fix="rename the file")
    return local


def _source(module: str, spec: ModuleSpec | None) -> Path | None:
    """The file of a dotted module, given the spec of its top-level part."""
    parts = module.split(".")
    for end in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None:
            return None
        places = list(spec.submodule_search_locations)
        spec = PathFinder.find_spec(".".join(parts[:end]), places)
    origin = spec.origin if spec else None
    return Path(origin) if origin and Path(origin).is_file() else None


def _installed_spec(top: str) -> ModuleSpec | None:
    # For a top-level name this runs no code of the module; editable installs are found too.
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None


def _enter(base: Path) -> None:
    """Put `base` first on the path, and forget what came from another configuration's directory."""
    if _entered == [str(base)]:
        return
    _forget()
    if _entered and _entered[0] in sys.path:
        sys.path.remove(_entered[0])
    _entered[:] = [str(base)]
    sys.path.insert(0, str(base))


def _forget() -> None:
    """Have the modules of the configuration's directory imported anew."""
    for name in [key for key in sys.modules if key.partition(".")[0] in _local]:
        del sys.modules[name]
    _local.clear()
    _digests.clear()


def _note_local(names: Iterable[str], base: Path) -> None:
    """Remember which of the newly imported modules lie directly in `base`."""
    _local.update(name for name in names if "." not in name and _lies_in(sys.modules[name], base))


def _lies_in(module: Any, base: Path) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file)
    folder = path.parent.resolve()  # a link to another set's file counts where the link lies
    return base in (folder, folder.parent if path.name == "__init__.py" else None)
