"""Acceptance, agreement, and the differences of two drafters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.drafter.statistics import agree, difference, equal_drafts, estimate, summarise, tally


def test_acceptance_counts_blocks_not_sequences() -> None:
    """The mean, P(m >= n) and the histogram are over blocks."""
    found = summarise([np.array([7, 0, 0]), np.array([1])], 7)
    assert (2.0, 4, 2) == (found.mean, found.blocks, found.sequences)
    assert (0.5, *[0.25] * 6) == found.at_least
    assert (2, 1, 0, 0, 0, 0, 0, 1) == found.histogram


def test_standard_error_is_over_sequences() -> None:
    """Equal sequences have no error; unequal ones have that of resampling them, the same on every call."""
    same = [np.array([3, 1])] * 6
    assert summarise(same, 7).standard_error == 0.0
    mixed = [np.full(10, n) for n in range(8)]
    found = summarise(mixed, 7)
    assert found == summarise(mixed, 7)
    assert found.standard_error == pytest.approx(np.std(range(8)) / np.sqrt(8), rel=0.1)
    assert found.interval is not None
    assert found.interval[0] < found.mean < found.interval[1]


def test_nothing_accepted_of_nothing() -> None:
    """No blocks give zeros, not a division by zero, and no interval."""
    found = summarise([np.zeros(0, np.int64)], 3)
    assert (0.0, 0.0, (0.0, 0.0, 0.0), 0) == (found.mean, found.standard_error, found.at_least, found.blocks)
    assert ((0, 0, 0, 0), None) == (found.histogram, found.interval)


def test_one_sequence_has_no_interval() -> None:
    """A single sequence can't be resampled, and neither can one beside sequences without blocks."""
    assert estimate(tally([np.array([1, 2])])).interval is None
    assert estimate(tally([np.array([1, 2]), np.zeros(0, np.int64)])).interval is None


def test_a_difference_is_paired_by_sequence() -> None:
    """A constant gain has no error however much the sequences differ; an unpaired test would not see it."""
    base = [np.full(10, n) for n in range(7)]
    better = [b + 1 for b in base]
    found = difference(tally(better), tally(base))
    assert found.mean == 1.0
    assert found.interval == pytest.approx((1, 1))
    assert found.standard_error == pytest.approx(0, abs=1e-12)
    assert difference(tally(base), tally(better)).mean == -1.0


def test_a_difference_of_disjoint_blocks_leaves_out_empty_resamples() -> None:
    """Where a resample has no block on one side it says nothing; the interval is still finite."""
    near = [np.array([1, 2]), np.zeros(0, np.int64), np.array([3])]
    far = [np.zeros(0, np.int64), np.array([5]), np.array([6, 7])]
    found = difference(tally(far), tally(near))
    assert found.mean == pytest.approx(6 - 2)
    assert found.interval is not None
    assert np.isfinite(found.interval).all()
    assert difference(tally(far), tally([np.zeros(0, np.int64)] * 3)).interval is None


def test_intervals_are_wider_for_few_sequences() -> None:
    """For the same spread the interval of few sequences is wider than the plain percentiles of its resamples."""
    found = estimate(tally([np.full(5, n) for n in (1, 3, 4, 6)]))
    assert found.interval is not None
    assert found.interval[1] - found.interval[0] > 2 * 1.96 * found.standard_error


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=9), min_size=2, max_size=9))
def test_an_interval_holds_the_mean_and_stays_in_range(rows: list[list[int]]) -> None:
    """Whatever the blocks, mean and interval lie between the smallest and the largest value."""
    found = summarise([np.array(row) for row in rows], 7)
    flat = [n for row in rows for n in row]
    assert found.interval is not None
    assert min(flat) <= found.interval[0] <= found.interval[1] <= max(flat)
    assert found.mean == pytest.approx(sum(found.at_least))


def test_agreement_needs_all_drafts_of_a_block() -> None:
    """One different draft makes a block differ; what follows it does not count."""
    left = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
    right = [np.array([[1, 2], [3, 9]]), np.array([[0, 6], [7, 8]])]
    equal = equal_drafts(left, right)
    assert [[2, 1], [0, 2]] == [row.tolist() for row in equal]
    found = agree(equal, 2)
    assert (0.5, (0.75, 0.5)) == (found.blocks.mean, found.at_least)
    assert agree(equal_drafts(left, left), 2).blocks.mean == 1.0


def test_no_blocks_agree() -> None:
    """Two drafters that never drafted do not differ."""
    nothing = [np.zeros((0, 3), np.int64)]
    assert (1.0, 1.0, 1.0) == agree(equal_drafts(nothing, nothing), 3).at_least
