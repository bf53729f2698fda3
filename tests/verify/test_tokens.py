"""Naming the tokens that moved, from digests of runs of ids alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.tokenizer import shortened, texts_by_id
from forgepack.canonical import digest_runs
from forgepack.verify.inputs.tokens import find_moved


def record(tokens: dict[int, str], step: int = 64) -> dict[str, Any]:
    count = max(tokens, default=-1) + 1
    return {"count": count, "step": step, "digests": "".join(shortened(digest_runs(texts_by_id(tokens), step)))}


@given(st.integers(2, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(0, n - 1))))
def test_any_exchange_is_named(case: tuple[int, int, int]) -> None:
    """Wherever two tokens changed places, both ids and both texts are told."""
    size, one, other = case
    good = {n: f"t{n}" for n in range(size)}
    swapped = {**good, one: good[other], other: good[one]}
    moved = find_moved(swapped, record(good))
    assert moved is not None
    if one == other:
        assert moved.message.startswith("every id has its text")
    else:
        low, high = sorted((one, other))
        assert f"ids {low} and {high} are exchanged" in moved.message
        assert (f"id {low} is 't{low}'", f"id {low} is 't{high}'") == (moved.expected, moved.found)


def test_other_changes_are_placed() -> None:
    """What is no exchange of two is placed within a run, and the differing runs are counted."""
    good = {n: f"t{n}" for n in range(300)}
    rotated = {n: f"t{(n + 1) % 300}" for n in range(300)}
    moved = find_moved(rotated, record(good))
    assert moved is not None
    assert "among 0 to 63; 5 of 5 runs" in moved.message
    moved = find_moved({**good, 300: "new"}, record(good))
    assert moved is not None
    assert "301 ids where 300 were recorded" == moved.message


@pytest.mark.parametrize(
    "stated",
    [None, 1, {}, {"count": 1}, {"count": 10**9, "step": 1, "digests": ""}, {"count": 1, "step": 0, "digests": ""}],
)
def test_unusable_record(stated: Any) -> None:
    """A record of another form says nothing, and costs nothing."""
    assert find_moved({0: "a"}, stated) is None
