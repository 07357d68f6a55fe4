"""quantflow: float models to INT8 for Huawei Ascend NPUs, with the evidence that they hold up."""

from importlib.metadata import version

__version__ = version("quantflow")
