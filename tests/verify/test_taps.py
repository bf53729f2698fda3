"""TAP: every way in which a list of taps can be wrong is told apart and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.verify.checks.taps import classify, describe
from tests.verify.running import by_name, check_of, refuse, told, verified
from tests.verify.sabotage import CONFIG, MANIFEST, SIDECAR, TARGET_CONFIG, Case, Change, both, drop, edit, put

_IDS = ("dflash_config", "target_layer_ids")


def _config(value: object) -> Change:
    return put(CONFIG, *_IDS, value=value)


CASES = [
    Case(name="missing", change=drop(CONFIG, *_IDS), roots=("TAP001",), says=("never derived",)),
    Case(name="no list", change=_config("1,3,6"), roots=("TAP001",)),
    Case(name="floats", change=_config([1.0, 3.0, 6.0]), roots=("TAP001",)),
    Case(name="a flag", change=_config([True, 3, 6]), roots=("TAP001",)),
    Case(name="guessed", change=_config([0, 3, 6]), roots=("TAP002",), says=("first at place 0", "shapes cannot")),
    Case(name="shifted up", change=_config([2, 4, 7]), roots=("TAP003",), says=("exactly +1", "hidden_states[i+1]")),
    Case(name="shifted down", change=_config([0, 2, 5]), roots=("TAP003",), says=("exactly -1",)),
    Case(name="permuted", change=_config([3, 1, 6]), roots=("TAP004",), says=("in the order [1, 0, 2]",)),
    Case(name="reversed", change=_config([6, 3, 1]), roots=("TAP004",), says=("reversed",)),
    Case(name="duplicate", change=_config([3, 3, 6]), roots=("TAP005",), says=("id 3 is listed twice",)),
    Case(name="negative", change=_config([-2, 3, 6]), roots=("TAP006",), says=("-2 is negative",)),
    Case(name="out of range", change=_config([1, 3, 8]), roots=("TAP007",), says=("at least 9",)),
    Case(name="last one lost", change=_config([1, 3]), roots=("TAP008",), says=("2 ids where 3",)),
    Case(name="manifest shifted", change=put(MANIFEST, "taps", value=[2, 4, 7]), roots=("TAP003",)),
    Case(name="manifest permuted", change=put(MANIFEST, "taps", value=[6, 3, 1]), roots=("TAP004",)),
    Case(
        name="target too short",
        change=put(TARGET_CONFIG, "text_config", "num_hidden_layers", value=6),
        roots=("CTR013", "TAP007"),
        says=("at least 7",),
    ),
    Case(
        name="sidecar's convention",
        change=put(SIDECAR, "forgepack", "target", "taps", "convention", value="hidden_states"),
        roots=("TAP009",),
    ),
    Case(
        name="sidecar's two lists disagree",
        change=put(SIDECAR, "forgepack", "target", "taps", "hf_hidden_states", value=[1, 3, 6]),
        roots=("TAP003",),
    ),
    Case(
        name="sidecar permuted in both lists",
        change=both(
            put(SIDECAR, "forgepack", "target", "taps", "layer_ids", value=[3, 1, 6]),
            put(SIDECAR, "forgepack", "target", "taps", "hf_hidden_states", value=[4, 2, 7]),
        ),
        roots=("TAP004",),
    ),
    Case(
        name="chunk states other taps",
        change=edit(MANIFEST, lambda raw: raw["chunks"][0].update(taps=[1])),
        roots=("TAP010",),
    ),
]


@by_name(CASES)
def test_wrong_taps_are_refused(pair: Path, case: Case) -> None:
    """Each kind of fault is refused by its own rule, and nothing else stands as a cause."""
    refuse(pair, case)


def test_taps_must_be_exported(pair: Path) -> None:
    """At depth lineage the programs of the chunks are asked, not the manifest."""

    def swap(raw: dict[str, list[dict[str, object]]]) -> None:
        first, second = raw["chunks"]
        first["file"], second["file"] = second["file"], first["file"]

    edit(MANIFEST, swap)(pair)
    report = verified(pair, "lineage")
    text = told(report, "TAP011")
    assert "fail" == check_of(report, "TAP011").status
    assert "taps [1]" in text
    assert "outputs y, tap6" in text


def test_tap_on_the_last_layer_is_legal(pair: Path) -> None:
    """A last-layer tap is a note: the convention must be known, nothing is refused."""
    from tests.verify.factory import PROFILE, tiny_profile

    profile = tiny_profile(geometry={**PROFILE["geometry"], "taps": [1, 3, 7]})
    report = verified(pair, profile=profile)
    assert ("fail", "note") == (check_of(report, "TAP012").status, check_of(report, "TAP012").severity)
    assert "pass" == check_of(verified(pair), "TAP012").status


_EXPECTED = [5, 19, 33, 47, 61]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (None, "missing"),
        ("5", "type"),
        ([5, 19, 33, 47, 61], "equal"),
        ([6, 20, 34, 48, 62], "shifted"),
        ([4, 18, 32, 46, 60], "shifted"),
        ([19, 33, 47, 5, 61], "order"),
        ([1, 16, 31, 46, 61], "values"),
        ([5, 19, 33, 47, 64], "range"),
        ([5, 19, 33, 47], "count"),
        ([5, 19, 33, 47, 47], "duplicate"),
        ([5, 19, 33, 47, -3], "negative"),
        ([], "count"),
    ],
)
def test_kinds_of_the_release(found: object, kind: str) -> None:
    """The release's own taps, spoiled in each way that was seen."""
    assert kind == classify(found, _EXPECTED, 64)


def test_text_sorting_is_named() -> None:
    """Ids in the order of their texts are recognised as such."""
    found = [int(text) for text in sorted(map(str, _EXPECTED))]
    assert "sorted as text" in describe("order", found, _EXPECTED, 64)


@given(st.one_of(st.none(), st.integers(), st.lists(st.one_of(st.integers(-3, 70), st.booleans()), max_size=7)))
def test_every_value_has_one_kind(found: object) -> None:
    """Whatever stands there is classified and described, and only the pinned list is equal."""
    kind = classify(found, _EXPECTED, 64)
    assert (found == _EXPECTED and not any(isinstance(n, bool) for n in found)) == (kind == "equal")
    assert isinstance(describe(kind, found, _EXPECTED, 64), str)
