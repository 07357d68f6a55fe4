"""Where atc is, and whether CANN's environment is set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.compiler_packages import package_findings
from quantflow.config import LoadedConfig

SET_ENV_FILES: Final = (
    Path("/usr/local/Ascend/cann/set_env.sh"),
    Path("/usr/local/Ascend/ascend-toolkit/set_env.sh"),
)
"""Where CANN puts the script that prepares a shell, newest layout first."""

HOME: Final = "ASCEND_TOOLKIT_HOME"
"""Where the toolkit lies."""
OPP: Final = "ASCEND_OPP_PATH"
"""Where its operators lie."""

_DRIVER: Final = Path("/usr/local/Ascend/driver")
_PARALLEL: Final = "TE_PARALLEL_COMPILER"
_MOST_ENTRIES: Final = 1000
"""Of a directory that is listed."""


def find_atc(loaded: LoadedConfig) -> str | None:
    """The path of ``atc.executable``; None when there is no such program.

    A name is looked up on PATH; a path is relative to the configuration. What is found is
    absolute, since atc is started in another directory.
    """
    name = loaded.config.atc.executable
    found = shutil.which(str(loaded.resolve(name)) if os.sep in name else name)
    return found and str(Path.cwd() / found)


def environment_findings(
    executable: str | None,
    environ: Mapping[str, str],
    set_env_files: tuple[Path, ...] = SET_ENV_FILES,
) -> Iterator[Finding]:
    """What is missing around atc.

    Args:
        executable: path of atc, None when it was not found.
        environ: environment variables.
        set_env_files: where CANN's script may lie.
    """
    script = next((path for path in set_env_files if path.is_file()), None)
    if executable is None and script is not None:
        yield _warning("CANN is installed, but its environment is not set", f"source {script}")
    yield from _variables(executable, environ, f"source {script or SET_ENV_FILES[0]}")
    parallel = environ.get(_PARALLEL)
    if parallel is not None and not (parallel.isdecimal() and 1 <= int(parallel) <= 32):
        what = f"{_PARALLEL} is {parallel!r}; it takes 1 to 32"
        yield _warning(what, f"unset {_PARALLEL}, or give a number in that range")
    if executable is not None:
        yield from package_findings(environ)
    devlib = _devlib(environ)
    if executable is not None and devlib is not None and not _DRIVER.exists():
        yield _warning(
            "this host has no NPU driver, and atc will not find the libraries it needs instead",
            f"export LD_LIBRARY_PATH={devlib}:$LD_LIBRARY_PATH",
        )


def _variables(executable: str | None, environ: Mapping[str, str], fix: str) -> Iterator[Finding]:
    """Variables of CANN's environment that are not set, or name a directory that is not there."""
    for name in (HOME, OPP):
        value = environ.get(name)
        if value is None and executable is not None:
            yield _warning(f"atc was found, but {name} is not set", fix)
        elif value is not None and not Path(value).is_dir():
            yield _warning(f"{name} is {value!r}, and there is no such directory", fix)


def ops_findings(chip: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A warning where operators are installed, and those of `chip` are not among them.

    The manual (modify_mixlist) names the place: a directory a chip family in
    ``built-in/op_impl/ai_core/tbe/config`` of the opp path, such as ``ascend310p``. A directory
    whose name the chip's starts with counts as its own, so that this never warns without need.

    Args:
        chip: ``target.chip``.
        environ: environment variables.
    """
    opp = environ.get(OPP)
    if not opp:
        return
    place = Path(opp) / "built-in" / "op_impl" / "ai_core" / "tbe" / "config"
    try:
        names = [path.name for path in islice(place.iterdir(), _MOST_ENTRIES) if path.is_dir()]
    except OSError:
        return
    families = sorted(name for name in names if name.lower().startswith("ascend"))
    if families and not any(chip.lower().startswith(name.lower()) for name in families):
        what = f"{place} has operators for {', '.join(families)} and none for {chip}"
        yield _warning(what, f"install CANN's ops package for {chip}")


def _devlib(environ: Mapping[str, str]) -> Path | None:
    """CANN's stand-ins for the driver's libraries, where they exist and are not in use."""
    home = environ.get(HOME)
    path = Path(home) / f"{os.uname().machine}-linux" / "devlib" if home else None
    used = environ.get("LD_LIBRARY_PATH", "").split(":")
    return path if path is not None and path.is_dir() and str(path) not in used else None


def _warning(what: str, fix: str) -> Finding:
    return Finding(level="warning", what=what, where="environment", fix=fix)
