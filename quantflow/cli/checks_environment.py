"""Checks of the machine: Python, packages, torch, onnxruntime, atc, disk."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from quantflow.cli.check import Check, problem_check, problem_checks
from quantflow.config import LoadedConfig, RuntimeConfig
from quantflow.errors import QuantflowError

LEAST_FREE_BYTES = 2 * 1024**3
"""A run holds about six copies of the model; less than this is little even for a small one."""


def python_check() -> Check:
    """Python's version; pip has already refused one that does not fit."""
    return Check("environment", "Python", "ok", sys.version.split()[0])


def package_checks(requirements: Iterable[str] | None = None) -> Iterator[Check]:
    """Installed versions against those that quantflow needs.

    Args:
        requirements: as in package metadata; quantflow's own when None.
    """
    from packaging.requirements import Requirement

    texts = requires("quantflow") or [] if requirements is None else requirements
    for requirement in map(Requirement, texts):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            found = ""
        # A local version such as 2.13.0+cpu is that version.
        fits = bool(found) and requirement.specifier.contains(found, prereleases=True)
        wanted = f"{requirement.name}{requirement.specifier}"
        yield Check(
            "environment",
            requirement.name,
            "ok" if fits else "error",
            found or "not installed",
            "" if fits else f"pip install '{wanted}'",
        )


def torch_check() -> Check:
    """Whether torch can be imported, and what torch_npu without CANN beneath it does to that."""
    from quantflow.torch_import import import_torch

    try:
        import_torch()
    except QuantflowError as error:
        return problem_check("environment", "torch import", error.problems[0])
    try:
        npu = version("torch_npu")
    except PackageNotFoundError:
        return Check("environment", "torch import", "ok", "works")
    if os.environ.get("ASCEND_TOOLKIT_HOME"):
        return Check("environment", "torch import", "ok", f"works; torch_npu {npu} with CANN")
    value = f"torch_npu {npu} is installed, but CANN is not: a plain `import torch` may fail"
    fix = "source CANN's set_env.sh, set TORCH_DEVICE_BACKEND_AUTOLOAD=0, or uninstall torch_npu"
    return Check("environment", "torch import", "warn", value, fix)


def provider_check(config: RuntimeConfig) -> Check:
    """Whether onnxruntime can run on the configured device."""
    from quantflow.runtime.onnxruntime_build import PROVIDERS, available_providers

    found = available_providers()
    if PROVIDERS[config.provider] in found:
        return Check("environment", "onnxruntime providers", "ok", ", ".join(found))
    value = f"no {PROVIDERS[config.provider]}, only {', '.join(found)}"
    fix = 'install the onnxruntime build for it, or set runtime.provider = "cpu"'
    return Check("environment", "onnxruntime providers", "error", value, fix)


def atc_checks(loaded: LoadedConfig | None) -> Iterator[Check]:
    """Whether atc is at hand, and what it needs; without it all but the conversion works.

    Args:
        loaded: names executable and chip; ``atc`` is looked for when None.
    """
    from quantflow.ascend.environment import environment_findings, find_atc, ops_findings
    from quantflow.ascend.installed_chip import other_chip_findings

    executable = find_atc(loaded) if loaded is not None else shutil.which("atc")
    if executable is not None:
        yield Check("environment", "atc", "ok", executable)
    else:
        value = "not found: export-om will write what another machine needs to convert the model"
        yield Check("environment", "atc", "warn", value, "source CANN's set_env.sh where it is")
    findings = list(environment_findings(executable, os.environ))
    if loaded is not None:
        chip = loaded.config.target.chip
        findings += [*other_chip_findings(chip, os.environ), *ops_findings(chip, os.environ)]
    for finding in findings:
        yield Check("environment", "CANN", "warn", finding.what, finding.fix)


def om_check() -> Check:
    """Whether .om files can be run here; only `compare --runner om` needs that."""
    from quantflow.runtime.om_model import installed_backends

    found = installed_backends()
    value = ", ".join(found) or "no acl or ais_bench: .om files cannot be run on this machine"
    return Check("environment", "running .om files", "ok", value)


def disk_check(directory: Path, least: int = LEAST_FREE_BYTES) -> Check:
    """Free space where results go.

    Args:
        directory: the run directory, which need not exist yet.
        least: bytes below which to warn.
    """
    place = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GB free at {place}"
    if free >= least:
        return Check("environment", "disk", "ok", text)
    return Check("environment", "disk", "warn", text, "free some, or set run.directory elsewhere")


def arithmetic_check() -> Check:
    """Whether integer products come out exact, which all int8 figures rest on."""
    from quantflow.cli.integer_probe import EXACT, probe

    name = "int8 arithmetic"
    try:
        found = probe()
    except QuantflowError as error:
        return problem_checks("environment", name, error)[0]
    if found == EXACT:
        return Check("environment", name, "ok", f"exact: MatMulInteger gives {EXACT:,}")
    value = f"MatMulInteger gives {found:,} where {EXACT:,} is right"
    fix = "use another onnxruntime build: int8 results of this one are not what an NPU computes"
    return Check("environment", name, "error", value, fix)
