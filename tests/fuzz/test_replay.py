"""Every reader ends on damaged input in a value or in one of this tool's errors."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from fuzz.assets import replay_assets
from fuzz.damage import damaged
from fuzz.readers import READERS, seed_of, try_bytes
from fuzz.replay import replay, stored_inputs
from fuzz.seeds import small_traces
from fuzz.structure import reshaped
from tests.verify.conftest import base
from tests.verify.factory import tiny_profile

__all__ = ["base"]

SAMPLE = 60
PROGRAMS = 8


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


def test_damaged_programs_end_in_a_value_or_an_error(base: Path, tmp_path: Path) -> None:
    """What a damaged program does to Core AI's reader stays in its child; each ends in an error of this tool."""
    found = replay_assets(base, range(PROGRAMS), tmp_path / "assets")
    assert PROGRAMS == found.total()
    assert {"4"} == {code.split()[0] for code in found if code != "0 a value"}


def test_damage_that_keeps_the_frame_is_parsed() -> None:
    """Changes of a file's values leave JSON that parses, tensors whose header has its length, archives that open."""
    whole = b'{"a": 1, "b": [1, {"c": "d"}], "e": {"f": 2.5}}'
    changed = [reshaped(whole, seed) for seed in range(200)]
    assert all(isinstance(json.loads(data), dict) for data in changed)
    assert len(set(changed)) > 100
    framed = len(whole).to_bytes(8, "little") + whole + bytes(8)
    heads = [reshaped(framed, seed) for seed in range(50)]
    assert all(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]) for data in heads)
    for seed in range(30):
        with zipfile.ZipFile(io.BytesIO(reshaped(small_traces(Path(), tiny_profile()), seed))) as archive:
            assert archive.testzip() is None


def test_damage_is_the_same_for_ever() -> None:
    """One seed is one damage."""
    assert [damaged(b'{"a": 1}' * 9, n) for n in range(50)] == [damaged(b'{"a": 1}' * 9, n) for n in range(50)]
    assert 1 < len({damaged(b'{"a": 1}' * 9, n) for n in range(50)})
