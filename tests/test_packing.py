"""Packing of 4-bit indices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from forgepack.errors import NumericsError
from forgepack.packing import pack_u4, packed_bytes, unpack_u4

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7)
INDICES = hnp.arrays(np.uint8, SHAPES, elements=st.integers(0, 15))


@given(INDICES)
def test_round_trip(indices: np.ndarray) -> None:
    """Unpacking what was packed gives the same indices and shape, whatever the shape."""
    packed = pack_u4(indices)
    assert packed_bytes(indices.size) == packed.size
    assert np.array_equal(indices, unpack_u4(packed, indices.shape))


@given(INDICES.filter(lambda a: a.size > 0), st.data())
def test_one_changed_index_changes_the_bytes(indices: np.ndarray, data: st.DataObject) -> None:
    """Packing is injective: another index at one place is another byte string."""
    place = data.draw(st.integers(0, indices.size - 1))
    other = indices.copy()
    other.reshape(-1)[place] ^= 1
    assert not np.array_equal(pack_u4(indices), pack_u4(other))


def test_low_nibble_first() -> None:
    """The first of two indices lies in the low nibble; an odd last one leaves the high nibble 0."""
    assert bytes([0x21, 0x43, 0x0F]) == pack_u4(np.array([1, 2, 3, 4, 15], np.uint8)).tobytes()


def test_views_pack_like_copies() -> None:
    """A strided view packs in C order of what it shows."""
    base = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert np.array_equal(pack_u4(base.T.copy()), pack_u4(base.T))


def test_index_over_15_is_refused() -> None:
    """An index that needs five bits is named with its place."""
    with pytest.raises(NumericsError, match="flat index 2") as caught:
        pack_u4(np.array([0, 15, 16], np.uint8))
    assert caught.value.code == "u4-range"


@pytest.mark.parametrize(("size", "shape"), [(1, (3,)), (3, (4,)), (0, (1,))])
def test_wrong_length_is_refused(size: int, shape: tuple[int, ...]) -> None:
    """A buffer shorter or longer than the shape needs is refused."""
    with pytest.raises(NumericsError) as caught:
        unpack_u4(np.zeros(size, np.uint8), shape)
    assert caught.value.code == "u4-length"


def test_dirty_padding_is_refused() -> None:
    """A non-zero unused nibble would give two byte strings for the same indices."""
    with pytest.raises(NumericsError) as caught:
        unpack_u4(np.array([0x10], np.uint8), (1,))
    assert caught.value.code == "u4-padding"
