"""Acceptance by context position."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.drafter.buckets import bucket_edges, by_position, ring_effect


def test_the_ring_is_an_edge_and_edges_double_beyond_it() -> None:
    """At the release's window: fine below the ring, doubled above, up to the last position."""
    assert (0, 512, 1024, 2048, 4096) == bucket_edges(2048, 3000)
    assert (0, 16, 32, 64, 128, 256) == bucket_edges(64, 128)
    assert (0, 512, 1024, 2048) == bucket_edges(2048, 0)


@given(st.integers(1, 5000), st.integers(0, 100_000))
def test_every_position_has_one_bucket(window: int, longest: int) -> None:
    """Edges ascend, hold the window, and reach past the last position."""
    edges = bucket_edges(window, longest)
    assert list(edges) == sorted(set(edges))
    assert edges[0] == 0
    assert window in edges
    assert edges[-1] > longest


def test_buckets_hold_the_blocks_that_start_in_them() -> None:
    """Empty buckets are left out; the others count their blocks alone."""
    positions = [np.array([3, 9, 70]), np.array([63, 64])]
    values = [np.array([7, 1, 2]), np.array([5, 4])]
    found = [(b.low, b.high, b.blocks, b.value.mean) for b in by_position(values, positions, 64)]
    assert [(0, 16, 2, 4.0), (32, 64, 1, 5.0), (64, 128, 2, 3.0)] == found


def test_a_ring_that_caps_acceptance_is_seen() -> None:
    """Where every sequence accepts less beyond the ring the change is negative and its interval excludes 0."""
    positions = [np.arange(40, 90, 10)] * 6
    values = [np.where(at < 64, 6, 2) + n % 2 for n, at in enumerate(positions)]
    found = ring_effect(values, positions, 64)
    assert found is not None
    assert found.change.mean == pytest.approx(-4)
    assert found.change.interval is not None
    assert found.change.interval[1] < 0
    assert (18, 12) == (found.whole.blocks, found.beyond.blocks)


def test_one_side_alone_says_nothing_of_the_ring() -> None:
    """Traces shorter than the ring have no effect to show."""
    assert ring_effect([np.array([1, 2])], [np.array([3, 9])], 64) is None
    assert ring_effect([np.array([1, 2])], [np.array([70, 90])], 64) is None
