"""Weights refused by their values alone, whatever block of the file a value lies in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.verify import values
from forgepack.verify.values import Weight, nonfinite

KINDS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


@pytest.mark.parametrize("dtype", KINDS)
@given(places=st.sets(st.integers(0, 20), max_size=5), kind=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_every_value_that_is_not_finite_is_counted(dtype: str, places: set[int], kind: float) -> None:
    """The count and the flat index of the first are NumPy's, in blocks of eight values."""
    array = np.arange(-10, 11).astype(KINDS[dtype])
    array[sorted(places)] = kind
    weight = Weight(name="w", dtype=dtype, shape=(21,), raw=lambda: array.view(np.uint8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_BLOCK", 8)
        assert ((len(places), min(places)) if places else None) == nonfinite(weight)
