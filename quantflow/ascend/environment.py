"""Where atc is, and whether CANN's environment is set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.config import LoadedConfig

SET_ENV_FILES: Final = (
    Path("/usr/local/Ascend/cann/set_env.sh"),
    Path("/usr/local/Ascend/ascend-toolkit/set_env.sh"),
)
"""Where CANN puts the script that prepares a shell, newest layout first."""

_DRIVER: Final = Path("/usr/local/Ascend/driver")
_PARALLEL: Final = "TE_PARALLEL_COMPILER"


def find_atc(loaded: LoadedConfig) -> str | None:
    """The path of ``atc.executable``; None when there is no such program.

    A name is looked up on PATH; a path is relative to the configuration.
    """
    name = loaded.config.atc.executable
    return shutil.which(str(loaded.resolve(name)) if os.sep in name else name)


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
    parallel = environ.get(_PARALLEL)
    if parallel is not None and not (parallel.isdecimal() and 1 <= int(parallel) <= 32):
        what = f"{_PARALLEL} is {parallel!r}; it takes 1 to 32"
        yield _warning(what, f"unset {_PARALLEL}, or give a number in that range")
    devlib = _devlib(environ)
    if executable is not None and devlib is not None and not _DRIVER.exists():
        yield _warning(
            "this host has no NPU driver, and atc will not find the libraries it needs instead",
            f"export LD_LIBRARY_PATH={devlib}:$LD_LIBRARY_PATH",
        )


def _devlib(environ: Mapping[str, str]) -> Path | None:
    """CANN's stand-ins for the driver's libraries, where they exist and are not in use."""
    home = environ.get("ASCEND_TOOLKIT_HOME")
    path = Path(home) / f"{os.uname().machine}-linux" / "devlib" if home else None
    used = environ.get("LD_LIBRARY_PATH", "").split(":")
    return path if path is not None and path.is_dir() and str(path) not in used else None


def _warning(what: str, fix: str) -> Finding:
    return Finding(level="warning", what=what, where="environment", fix=fix)
