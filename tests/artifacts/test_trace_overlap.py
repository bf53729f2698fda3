"""Sequences by content: equal ones, copies that were edited, and genuine ones that are neither."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.artifacts.trace_overlap import (
    MAX_HASHES,
    Fingerprint,
    Overlap,
    compare_fingerprints,
    find_repeats,
    fingerprint_json,
    parse_fingerprint,
    take_fingerprint,
)
from forgepack.artifacts.traces import TraceSequence, read_traces
from forgepack.canonical import dump_canonical
from forgepack.miniature.data import find_miniature
from forgepack.profile import load_profile

VOCAB = 5000
Edit = Callable[[list[int], int], tuple[list[int], int]]


def sequence(tokens: Sequence[int], plen: int, index: int = 0) -> TraceSequence:
    none = np.zeros(0, np.int64)
    return TraceSequence(
        index=index,
        tokens=np.array(tokens, np.int32),
        plen=plen,
        rows=len(tokens),
        beyond=0,
        positions=none,
        accepted=none,
        ignored=0,
    )


def texts(count: int, length: int, seed: int = 0, plen: int = 45) -> list[tuple[list[int], int]]:
    """Return sequences that share a prompt's template of 45 tokens; what follows is random."""
    rng = np.random.default_rng(seed)
    template = list(range(plen))
    return [(template + rng.integers(0, VOCAB, length).tolist(), plen) for _ in range(count)]


def overlap(mine: list[tuple[list[int], int]], theirs: list[tuple[list[int], int]], every: int = 1) -> Overlap:
    sides = [
        take_fingerprint([sequence(t, p, n) for n, (t, p) in enumerate(part)], every=every) for part in (mine, theirs)
    ]
    return compare_fingerprints(sides[0], sides[1])


def one_token(tokens: list[int], plen: int) -> tuple[list[int], int]:
    place = (plen + len(tokens)) // 2
    return [*tokens[:place], tokens[place] + 1, *tokens[place + 1 :]], plen


def each_64th(tokens: list[int], plen: int) -> tuple[list[int], int]:
    return [t + (n >= plen and n % 64 == 9) for n, t in enumerate(tokens)], plen


EDITS: dict[str, Edit] = {
    "one token changed": one_token,
    "a token in 64 changed": each_64th,
    "cut to two thirds": lambda t, p: (t[: p + (len(t) - p) * 2 // 3], p),
    "begun later": lambda t, p: (t[:p] + t[p + 7 :], p),
    "shifted by a few tokens": lambda t, p: ([*t[:p], 3, 1, 2, *t[p:]], p),
    "a token left out": lambda t, p: (t[: p + 14] + t[p + 15 :], p),
    "another prompt": lambda t, p: ([9] * p + t[p:], p),
    "prompt moved into generation": lambda t, p: (t, 1),
    "generation moved into the prompt": lambda t, p: (t, p + 10),
    "another text behind it": lambda t, p: (t + list(range(700, 900)), p),
}


@pytest.mark.parametrize("length", [27, 64, 256])
@pytest.mark.parametrize("kind", EDITS)
def test_edited_copies_are_found(kind: str, length: int) -> None:
    """A sequence that calibrated is found under every edit that leaves it its text."""
    theirs, mine = texts(6, length), texts(4, length, seed=1)
    tokens, plen = theirs[4]
    found = overlap([*mine, EDITS[kind](tokens, plen)], theirs)
    assert [(4, 4)] == [(m.mine, m.other) for m in found.matches]
    assert found.closest == found.matches[0]


@pytest.mark.parametrize("kind", EDITS)
def test_edited_copies_are_found_in_a_sample(kind: str) -> None:
    """Where every fourth n-gram is kept, copies of the usual length are still found, and others are not."""
    theirs, mine = texts(6, 256), texts(4, 256, seed=1)
    tokens, plen = theirs[4]
    found = overlap([*mine, EDITS[kind](tokens, plen)], theirs, every=4)
    assert [(4, 4)] == [(m.mine, m.other) for m in found.matches]


def test_shared_prompts_and_short_answers_are_legal() -> None:
    """Templates are not counted, nor are short answers that two prompts share; the same prompt with it is equal."""
    theirs, mine = texts(6, 100), texts(6, 100, seed=1)
    assert Overlap(every=1, share=0.0, matches=(), closest=None) == overlap(mine, theirs)
    short = [11, 12, 13, 14]
    assert () == overlap([([1, 2, 3, *short], 3)], [([4, 5, 6, *short], 3)]).matches
    (found,) = overlap([([1, 2, 3, *short], 3)], [([1, 2, 3, *short], 3)]).matches
    assert found.equal


def test_equal_text_of_other_prompts_is_equal() -> None:
    """Fifteen generated tokens or more that are equal are one sequence, whatever the prompts."""
    text = list(range(100, 115))
    for length, equal in ((14, 0), (15, 1)):
        assert equal == overlap([([1, *text[:length]], 1)], [([2, 3, *text[:length]], 2)]).equal


def test_counts_and_shares_are_told() -> None:
    """Eleven of twelve: as many are equal, and so is that share of the text."""
    theirs = texts(12, 120)
    found = overlap([*theirs[:11], *texts(1, 120, seed=1)], theirs)
    assert (11, 0) == (found.equal, found.copied)
    assert found.share == pytest.approx(11 / 12)
    assert {"ngram", "every", "equal", "copied", "share", "closest"} == set(found.as_json())


def phrases(seed: int) -> list[int]:
    """Text that is made of two dozen phrases of up to 20 tokens, as a small model's greedy text is."""
    library = np.random.default_rng(7)
    known = [library.integers(0, 300, n).tolist() for n in library.integers(3, 20, 24)]
    chosen = np.random.default_rng(seed).integers(0, len(known), 40)
    return [*range(45), *(token for n in chosen for token in known[n])][: 45 + 256]


@pytest.mark.parametrize("every", [1, 2, 4])
def test_genuine_text_is_no_copy(every: int) -> None:
    """Greedy text of one model from many prompts shares phrases, yet no sequence is another's copy."""
    generated = [(phrases(seed), 45) for seed in range(24)]
    assert () == overlap(generated[:12], generated[12:], every=every).matches
    assert () == find_repeats(take_fingerprint([sequence(t, p, n) for n, (t, p) in enumerate(generated)]))


def test_the_miniatures_sequences_are_all_their_own() -> None:
    """Of 276 pairs none is a copy; the closest shares 0.62 of its n-grams: what the bounds were set by."""
    geometry, files = load_profile("mini").geometry, find_miniature()
    found = [one for path in (files.calibration, files.held_out) for one in read_traces(path, geometry).sequences]
    prints = [take_fingerprint([one]) for one in found]
    pairs = [compare_fingerprints(a, b) for a, b in combinations(prints, 2)]
    assert [] == [pair.matches for pair in pairs if pair.matches]
    assert 0.62 == round(max(pair.closest.share for pair in pairs if pair.closest is not None), 2)


def test_repeats_within_a_set_are_found() -> None:
    """The later of two equal sequences is named with the earlier one."""
    first, second = texts(2, 60)
    found = take_fingerprint([sequence(*one, index=n) for n, one in enumerate([first, second, first, first])])
    assert ((0, 2), (0, 3)) == find_repeats(found)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=60), min_size=1, max_size=6), st.data())
def test_a_fingerprint_survives_its_json(parts: list[list[int]], data: st.DataObject) -> None:
    """Written and read again it is the same, and every sequence is found equal to itself."""
    plens = [data.draw(st.integers(1, len(part))) for part in parts]
    found = take_fingerprint([sequence(t, p, n) for n, (t, p) in enumerate(zip(parts, plens, strict=True))])
    written = dump_canonical(fingerprint_json(found))
    again = parse_fingerprint(json.loads(written))
    assert again is not None
    assert written == dump_canonical(fingerprint_json(again))
    assert len(parts) == compare_fingerprints(found, again).equal


def test_its_size_is_bounded() -> None:
    """Many n-grams are thinned out by their hash, the same ones on both sides; 32 x 256 tokens are 33 KB."""
    usual = take_fingerprint([sequence(t, p, n) for n, (t, p) in enumerate(texts(32, 256))])
    assert (1, True) == (usual.every, 30_000 < len(json.dumps(fingerprint_json(usual))) < 40_000)
    many = [sequence(t, p, n) for n, (t, p) in enumerate(texts(300, 256))]
    found = take_fingerprint(many)
    assert (8, True) == (found.every, sum(s.ngrams.size for s in found.sequences) <= MAX_HASHES)
    assert 300 == compare_fingerprints(take_fingerprint(many, every=found.every), found).equal


GOOD: dict[str, Any] = fingerprint_json(take_fingerprint([sequence(*texts(1, 60)[0])]))
BAD: dict[str, Any] = {
    "nothing": None,
    "a text": "ngrams",
    "another n": GOOD | {"ngram": 4},
    "no step": GOOD | {"every": 0},
    "a step that is no power of two": GOOD | {"every": 3},
    "an endless step": GOOD | {"every": 1 << 70},
    "a flag for a step": GOOD | {"every": True},
    "no sequences": {"ngram": 8, "every": 1},
    "a sequence that is none": GOOD | {"sequences": [1]},
    "bytes that are no triples": GOOD
    | {"sequences": [GOOD["sequences"][0] | {"ngrams": base64.b64encode(b"12345").decode()}]},
    "no base64": GOOD | {"sequences": [GOOD["sequences"][0] | {"ngrams": "%%%%"}]},
    "a short digest": GOOD | {"sequences": [GOOD["sequences"][0] | {"tokens": "ab"}]},
    "a negative length": GOOD | {"sequences": [GOOD["sequences"][0] | {"length": -1}]},
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_fingerprint_is_none(kind: str) -> None:
    """Another form is never half believed."""
    assert parse_fingerprint(GOOD) is not None
    assert parse_fingerprint(BAD[kind]) is None


def test_an_empty_fingerprint_compares() -> None:
    """No sequences share nothing."""
    none = Fingerprint(every=1, sequences=())
    some = take_fingerprint([sequence(*texts(1, 60)[0])])
    for pair in ((none, some), (some, none), (none, none)):
        assert Overlap(every=1, share=0.0, matches=(), closest=None) == compare_fingerprints(*pair)
