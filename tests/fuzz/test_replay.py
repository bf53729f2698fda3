"""Every reader ends on damaged input in a value or in one of this tool's errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.damage import damaged
from fuzz.readers import READERS, seed_of, try_bytes
from fuzz.replay import replay, stored_inputs
from tests.verify.conftest import base
from tests.verify.factory import tiny_profile

__all__ = ["base"]

SAMPLE = 60


@pytest.mark.parametrize("name", sorted(READERS))
def test_damage_ends_in_a_value_or_an_error(base: Path, tmp_path: Path, name: str) -> None:
    """The good file is read, and damage ends in many kinds of errors, none of them foreign."""
    profile, reader = tiny_profile(), READERS[name]
    good = seed_of(reader, base, profile)
    assert try_bytes(reader, good, tmp_path, profile) is None
    found = replay(reader, good, range(SAMPLE), tmp_path, profile)
    assert SAMPLE == found.total()
    assert len(found) > 1


@pytest.mark.parametrize("name", sorted(READERS))
def test_stored_inputs_no_longer_break_a_reader(tmp_path: Path, name: str) -> None:
    """What fuzzing found once stays found."""
    for data in stored_inputs(name):
        try_bytes(READERS[name], data, tmp_path, tiny_profile())


def test_damage_is_the_same_for_ever() -> None:
    """One seed is one damage."""
    assert [damaged(b'{"a": 1}' * 9, n) for n in range(50)] == [damaged(b'{"a": 1}' * 9, n) for n in range(50)]
    assert 1 < len({damaged(b'{"a": 1}' * 9, n) for n in range(50)})
