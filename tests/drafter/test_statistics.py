"""Acceptance and agreement."""

from __future__ import annotations

import numpy as np
import pytest

from forgepack.drafter.statistics import agreement, summarise


def test_acceptance_counts_blocks_not_sequences() -> None:
    """The mean and P(m >= n) are over blocks."""
    found = summarise([np.array([7, 0, 0]), np.array([1])], 7)
    assert (2.0, 4, 2) == (found.mean, found.blocks, found.sequences)
    assert (0.5, *[0.25] * 6) == found.at_least


def test_standard_error_is_over_sequences() -> None:
    """Equal sequences have no error; unequal ones have that of resampling them, the same on every call."""
    same = [np.array([3, 1])] * 6
    assert summarise(same, 7).standard_error == 0.0
    mixed = [np.full(10, n) for n in range(8)]
    found = summarise(mixed, 7).standard_error
    assert found == summarise(mixed, 7).standard_error
    assert found == pytest.approx(np.std(range(8)) / np.sqrt(8), rel=0.1)


def test_nothing_accepted_of_nothing() -> None:
    """No blocks give zeros, not a division by zero."""
    found = summarise([np.zeros(0, np.int64)], 3)
    assert (0.0, 0.0, (0.0, 0.0, 0.0), 0) == (found.mean, found.standard_error, found.at_least, found.blocks)


def test_agreement_needs_all_drafts_of_a_block() -> None:
    """One different draft makes a block differ."""
    left = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
    right = [np.array([[1, 2], [3, 9]]), np.array([[5, 6], [7, 8]])]
    assert agreement(left, right) == 0.75
    assert agreement(left, left) == 1.0
