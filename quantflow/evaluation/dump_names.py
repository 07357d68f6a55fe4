"""Whose tensor a file of a dump is: layer names hold dots and slashes, file names often cannot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from quantflow.evaluation.places import Place


def sanitized(name: str) -> str:
    """Letters and digits in small, anything else as single underscores: ``a/b.C`` is ``a_b_c``."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def tensors_in_dump(places: Sequence[Place], names: Iterable[str]) -> dict[str, str]:
    """The dump's name for every tensor that it holds.

    A place is found by its own name, by its tensor's, and by the sanitized form of either where
    that stands for a single tensor of the dump.

    Args:
        places: of the model.
        names: of the dump.

    Returns:
        Names of the dump by tensor.
    """
    names = list(names)
    by_form = _unambiguous(names)
    exact, found = set(names), dict[str, str]()
    for place in places:
        asked = (place.name, place.tensor)
        forms = (by_form.get(sanitized(name)) for name in asked)
        name = next((x for x in (*(x for x in asked if x in exact), *forms) if x), None)
        if name is not None:
            found.setdefault(place.tensor, name)
    return found


def with_inner(
    found: Mapping[str, str], values: Sequence[Place], names: Iterable[str]
) -> dict[str, str]:
    """With the tensors that lie inside layers and blocks, where no place has taken the name.

    Args:
        found: of the places.
        values: all that the model computes.
        names: of the dump.
    """
    taken = set(found.values())
    return tensors_in_dump(values, [x for x in names if x not in taken]) | dict(found)


def shared_names(first: Iterable[str], second: Iterable[str]) -> dict[str, str]:
    """The second dump's name for every name of the first that it has, in the first's order."""
    first, second = list(first), list(second)
    exact, by_form, of_first = set(second), _unambiguous(second), _unambiguous(first)
    found = dict[str, str]()
    for name in first:
        form = sanitized(name)
        if name in exact:
            found[name] = name
        elif form in by_form and form in of_first:
            found[name] = by_form[form]
    return found


def left_over(names: Iterable[str], used: Mapping[str, str], whose: str) -> list[str]:
    """A sentence about what of a dump stands for nothing that is compared."""
    unused = [name for name in names if name not in set(used.values())]
    if not unused:
        return []
    more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
    return [f"{whose} holds tensors that match nothing: {', '.join(unused[:5])}{more}"]


def _unambiguous(names: Sequence[str]) -> dict[str, str]:
    counts = Counter(sanitized(name) for name in names)
    return {sanitized(name): name for name in names if counts[sanitized(name)] == 1}
