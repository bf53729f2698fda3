"""Values that are not finite, whatever type they are stored in and whatever block they lie in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack import finite
from forgepack.finite import find_nonfinite

DTYPES = (ml_dtypes.bfloat16, np.float16, np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@given(places=st.sets(st.integers(0, 20), max_size=5), kind=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_every_value_that_is_not_finite_is_counted(dtype: Any, places: set[int], kind: float) -> None:
    """The count and the flat index of the first are NumPy's, in blocks of eight values and in two axes."""
    array = np.arange(-10, 11).astype(dtype)
    array[sorted(places)] = kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finite, "_BLOCK", 8)
        assert ((len(places), min(places)) if places else None) == find_nonfinite(array.reshape(3, 7))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_and_smallest_numbers_are_finite(dtype: Any) -> None:
    """Nothing but the exponent of all ones is taken for infinite."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    assert find_nonfinite(np.array([info.max, info.min, info.tiny, -0.0], dtype)) is None


@pytest.mark.parametrize("array", [np.zeros((0, 4), np.float16), np.full(9, 255, np.uint8)])
def test_nothing_and_integers_are_finite(array: np.ndarray[Any, Any]) -> None:
    """No value, or values that are whole numbers."""
    assert find_nonfinite(array) is None
