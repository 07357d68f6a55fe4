"""Paths as a configuration names them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from quantflow.errors import Problem, QuantflowError


def resolve_path(name: str, base: Path) -> Path:
    """Resolve a configured path: absolute, relative to `base`, or ``package:NAME/rest``.

    Raises:
        QuantflowError: QF104 when the package is not installed or the path leaves it, or when there
            is no such user's home.
    """
    if not name.startswith("package:"):
        try:
            path = Path(name).expanduser()
        except RuntimeError as error:
            raise QuantflowError([Problem("QF104", str(error), where=name)]) from error
        return path if path.is_absolute() else base / path
    package, _, rest = name.removeprefix("package:").partition("/")
    # find_spec of a top-level package does not run its code.
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise QuantflowError(
            [Problem("QF104", f"Python package {package!r} is not installed", where=name)]
        )
    root = Path(spec.submodule_search_locations[0]).resolve()
    path = (root / rest).resolve()
    if not path.is_relative_to(root):
        raise QuantflowError([Problem("QF104", "path leaves the package", where=name)])
    return path
