"""hypothesis strategies for float32 data."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOAT32_MAX = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).tiny)

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
"""Any finite float32, denormals and the largest values included."""

moderate = st.floats(-(2.0**100), 2.0**100, width=32, allow_nan=False)


@st.composite
def ranges(draw: st.DrawFn, values: st.SearchStrategy[float] = finite) -> tuple[float, float]:
    """Ordered finite bounds."""
    low, high = sorted((draw(values), draw(values)))
    return low, high


def arrays(
    shape: st.SearchStrategy[tuple[int, ...]], values: st.SearchStrategy[float] = finite
) -> st.SearchStrategy[np.ndarray]:
    """float32 arrays."""
    return hnp.arrays(np.float32, shape, elements=values)
