"""The Python packages of atc's operator compiler, in the python3 that atc will find."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.ask_program import ask_program

PACKAGES: Final = {
    "numpy": "numpy",
    "decorator": "decorator",
    "sympy": "sympy",
    "cffi": "cffi",
    "google.protobuf": "protobuf",
    "attr": "attrs",
    "yaml": "pyyaml",
    "pathlib2": "pathlib2",
    "scipy": "scipy",
    "requests": "requests",
    "psutil": "psutil",
    "absl": "absl-py",
}
"""What the compiler imports, with the name that pip installs it by."""

_QUESTION: Final = """
import importlib.util, sys
def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
print("asked", *[name for name in sys.argv[1:] if not found(name)])
"""


def package_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the compiler would miss; often told as EH9999 by an atc that has run for minutes.

    Args:
        environ: environment variables that atc gets; python3 is looked up on their PATH.
    """
    python = shutil.which("python3", path=environ.get("PATH", ""))
    if python is None:
        yield _warning("atc compiles operators with python3, and there is none on PATH", "add it")
        return
    missing = missing_packages(python, environ)
    if missing is None:
        what = f"{python} did not answer which of atc's Python packages it has"
        yield _warning(what, f"see that it has {' '.join(PACKAGES.values())}")
    elif missing:
        what = f"{python}, which atc compiles operators with, lacks {', '.join(missing)} (EH9999)"
        yield _warning(what, f"{shlex.quote(python)} -m pip install {' '.join(missing)}")


def missing_packages(python: str, environ: Mapping[str, str]) -> list[str] | None:
    """Packages, by pip's names, that `python` cannot import; None when it does not tell."""
    words = ask_program([python, "-c", _QUESTION, *PACKAGES], environ).split()
    if words[:1] != ["asked"] or not set(words[1:]) <= PACKAGES.keys():
        return None
    return [PACKAGES[name] for name in PACKAGES if name in words[1:]]


def _warning(what: str, fix: str) -> Finding:
    return Finding(level="warning", what=what, where="environment", fix=fix)
