"""Features that can't be a target's are refused by their layer; whatever a target may give is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.artifacts.trace_features import check_features
from forgepack.artifacts.traces import read_traces
from forgepack.errors import NumericsError
from forgepack.miniature.data import find_miniature
from tests.recorder import random_rows, simulate
from tests.synthetic import GEOMETRY, Recorded, write_traces

Rows = npt.NDArray[np.float16]
Change = Callable[[Rows], object]
FIRST, SECOND, THIRD = GEOMETRY.taps


def sequence(seed: int = 0) -> Recorded:
    return simulate([5, 6, 7, 8] * 5, list(range(4, 44)), [1, 3, 2, 0, 3, 3, 2], limit=36, seed=seed)


def check(folder: Path, *sequences: Recorded) -> None:
    traces = read_traces(write_traces(folder / "traces.npz", list(sequences)), GEOMETRY)
    for one in traces.sequences:
        check_features(traces, one.index)


def put(rows: Rows, tap: int | slice, values: Any) -> None:
    rows[:, tap] = values


def constant_but_rounding(rows: Rows) -> None:
    """One state in every row, off by one unit in the last place here and there."""
    bits = np.broadcast_to(rows[0, 1].view(np.uint16), rows[:, 1].shape).copy()
    bits[::3, ::2] ^= 1
    rows[:, 1] = bits.view(np.float16)


def alive_in_few_channels(rows: Rows) -> None:
    rows[:, 1, 3:] = rows[0, 1, 3:]


def later(rows: Rows) -> None:
    rows[1:, 2] = rows[:-1, 0]


def earlier(rows: Rows) -> None:
    rows[:-1, 2] = rows[1:, 0]


REFUSED: dict[str, tuple[Change, int, str]] = {
    "all zero": (lambda f: put(f, slice(None), 0), FIRST, "zero in row 0 and 40 more"),
    "minus zero": (lambda f: put(f, 1, -0.0), SECOND, "zero in row 0 and 40 more"),
    "one dead tap": (lambda f: put(f, 1, 0), SECOND, "zero in row 0"),
    "one dead row": (lambda f: f[17:18, 2].fill(0), THIRD, "zero in row 17"),
    "constant": (lambda f: put(f, 1, f[:1, 1]), SECOND, "constant: 0% of its channels vary"),
    "constant but for rounding": (constant_but_rounding, SECOND, "constant"),
    "alive in three channels": (alive_in_few_channels, SECOND, "constant: 9% of its channels"),
    "a tap twice": (lambda f: put(f, 2, f[:, 0]), THIRD, f"equal to the tap of layer {FIRST}"),
    "a tap twice, the later one first": (lambda f: put(f, 1, f[:, 2]), THIRD, f"equal to the tap of layer {SECOND}"),
    "all taps one": (lambda f: put(f, slice(None), f[:, :1]), SECOND, f"equal to the tap of layer {FIRST}"),
    "a multiple": (lambda f: put(f, 1, f[:, 0] * np.float16(1.7)), SECOND, "1.7 times the tap of layer 0"),
    "negated": (lambda f: put(f, 1, -f[:, 0]), SECOND, "-1 times the tap of layer 0"),
    "scaled down": (lambda f: put(f, 1, f[:, 0] / np.float16(64)), SECOND, "0.01562 times the tap of layer 0"),
    "shifted by a constant": (lambda f: put(f, 1, f[:, 0] + np.float16(3)), SECOND, "plus"),
    "one row later": (later, THIRD, f"equal to the tap of layer {FIRST}, one row later"),
    "one row earlier": (earlier, THIRD, f"equal to the tap of layer {FIRST}, one row earlier"),
    "equal in most rows": (lambda f: f[:30, 1].__setitem__(..., f[:30, 0]), SECOND, "equal to the tap of layer 0"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_can_not_be_a_layers_state_is_refused_by_its_layer(tmp_path: Path, kind: str) -> None:
    """Dead, constant, repeated, scaled and shifted taps name sequence, layer and place, wherever they are."""
    change, layer, found = REFUSED[kind]
    bad = sequence(1)
    change(bad.features)
    with pytest.raises(NumericsError) as caught:
        check(tmp_path, sequence(0), bad)
    assert ("traces-taps", 4) == (caught.value.code, caught.value.exit_code)
    assert f"sequence 1, tap of layer {layer} (feats_1" in str(caught.value.where)
    assert found in str(caught.value.found)


def huge_and_still(rows: Rows) -> None:
    """Set a channel to 30,000 in every row of every tap, as trained targets have them."""
    rows[:, :, 5] = 30_000


def some_dead_channels(rows: Rows) -> None:
    rows[:, :, ::2] = 0


def small_steps(rows: Rows) -> None:
    """Each tap is the one before it and a step of 3%: neighbouring layers of a deep target."""
    rng = np.random.default_rng(0)
    for tap in (1, 2):
        rows[:, tap] = rows[:, tap - 1] * (1 + 0.03 * rng.standard_normal(rows[:, tap].shape)).astype(np.float16)


TAKEN: dict[str, Change] = {
    "huge channels that never move": huge_and_still,
    "half of the channels dead": some_dead_channels,
    "neighbouring layers": small_steps,
    "subnormal": lambda f: np.multiply(f, np.float16(1e-6), out=f),
    "near float16's end": lambda f: np.multiply(f, np.float16(400), out=f),
    "equal in some rows": lambda f: f[:12, 1].__setitem__(..., f[:12, 0]),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_targets_may_give_is_taken(tmp_path: Path, kind: str) -> None:
    """No channel weighs more than another, and states of neighbouring layers may be close."""
    good = sequence()
    TAKEN[kind](good.features)
    assert np.isfinite(good.features).all()
    check(tmp_path, good)


def test_a_sequence_of_one_token_may_have_equal_rows(tmp_path: Path) -> None:
    """Attention over equal rows gives equal rows: a prompt of spaces is no constant tap."""
    rows = random_rows(20, 3)
    rows[:] = rows[:1]
    one = Recorded(tokens=np.full(20, 9, np.int32), plen=6, features=rows, accepted=np.array([1, 2], np.int8))
    check(tmp_path, one)
    with pytest.raises(NumericsError, match="constant"):
        check(tmp_path, replace(one, tokens=np.arange(20, dtype=np.int32)))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70), st.integers(0, 999))
def test_random_features_of_any_length_are_taken(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int
) -> None:
    """From one row on, features of the tests' form pass."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 44, count).astype(np.int32)
    one = Recorded(tokens=tokens, plen=1, features=random_rows(count, seed), accepted=np.zeros(0, np.int8))
    check(tmp_path_factory.mktemp("t"), one)


def test_the_miniatures_features_are_taken() -> None:
    """Features of a trained target pass, calibration's and held-out ones."""
    from forgepack.profile import load_profile

    geometry = load_profile("mini").geometry
    for path in (find_miniature().calibration, find_miniature().held_out):
        traces = read_traces(path, geometry)
        for one in traces.sequences:
            check_features(traces, one.index)
