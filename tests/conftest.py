"""What all tests share."""

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

LONGEST_FIRST = (
    "test_demo.py",
    "test_pipeline_commands.py",
    "test_stage_3.py",
    "test_from_torch.py",
    "test_readme.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes: at the end, one process would wait for the other."""
    last = len(LONGEST_FIRST)
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, last))
