"""Which sequences are whose: a compact fingerprint of recorded sequences, and what two sets of them share.

Only GENERATED tokens count: prompts and chat templates may be shared. A sequence equals another where all their
tokens, or all generated ones, are equal. It is a *copy* where nearly all 8-grams (runs of eight generated tokens) of
the shorter one occur in the other: a changed token takes eight of them away, and one change in 64 tokens is allowed
for. So a copy that is edited here and there, cut, shifted, or has its prompt moved into its generation is still
found. Sequences of fewer than 15 generated tokens are compared as a whole alone.

Measured on the miniature, whose byte-level greedy text repeats itself more than any tokenizer's: of 276 pairs of
sequences the closest shares 0.62 of its 8-grams, and lacks 13 more of 76 than a copy may; the closest of all to the
bound lacks 8 more. A copy with one changed token in 113 shares 0.92.

A fingerprint holds 24 bits of a hash of each 8-gram, or of every 2nd, 4th ... one (by hash) where they would be more
than 16,384 in all: 33 KB for 32 sequences of 256 tokens. Two 8-grams share their 24 bits once in 16.8 million.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.traces import TraceSequence

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

NGRAM = 8
# A copy may have one edit in so many tokens; each takes NGRAM n-grams away.
EDIT_SPAN = 64
# N-grams that a copy must share at least: 15 tokens in a row.
EVIDENCE = 8
MAX_HASHES = 16_384
MAX_EVERY = 1 << 20
# Short texts within long ones share all: so many of the largest shares are looked at.
_LOOKED_AT = 16
_SHORTEST = NGRAM + EVIDENCE - 1
_LOW = np.uint64(0xFFFFFF)
_DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequencePrint:
    """One sequence: digests of all tokens and of the generated ones (16 hex digits), and hashed n-grams, sorted.

    ``sequence`` is its number in its file, ``length`` the number of generated tokens.
    """

    sequence: int
    tokens: str
    generated: str
    length: int
    ngrams: U32

    def equals(self, other: SequencePrint) -> bool:
        """Say whether both are one sequence; short texts that are generated from two prompts are not."""
        return self.tokens == other.tokens or (self.length >= _SHORTEST and self.generated == other.generated)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fingerprint:
    """Sequences by content; of the n-grams, those are kept whose hash is a multiple of ``every``."""

    every: int
    sequences: tuple[SequencePrint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The sequence of one set that is closest to a sequence of another, and the share of n-grams they have in common.

    ``share`` is taken of the one with fewer n-grams.
    """

    mine: int
    other: int
    share: float
    equal: bool
    copied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What a set of sequences shares with one that calibrated.

    ``share`` is the share of its distinct n-grams that occur anywhere in the other set. ``matches`` holds each
    sequence that is equal or a copy, ``closest`` the closest pair of all, None where no n-gram is shared.
    """

    every: int
    share: float
    matches: tuple[Match, ...]
    closest: Match | None

    @property
    def equal(self) -> int:
        """How many sequences are equal to one that calibrated."""
        return sum(m.equal for m in self.matches)

    @property
    def copied(self) -> int:
        """How many more are copies of one."""
        return len(self.matches) - self.equal

    def as_json(self) -> dict[str, Any]:
        """Return it as reports hold it; without ``closest`` where no n-gram is shared."""
        out: dict[str, Any] = {
            "ngram": NGRAM,
            "every": self.every,
            "equal": self.equal,
            "copied": self.copied,
            "share": self.share,
        }
        if self.closest is not None:
            found = self.closest
            out["closest"] = {"calibration": found.other, "sequence": found.mine, "share": found.share}
        return out


def take_fingerprint(sequences: Sequence[TraceSequence], *, every: int | None = None) -> Fingerprint:
    """Return the fingerprint of sequences; without ``every`` the smallest sample that MAX_HASHES allows."""
    hashes = [np.unique(_ngram_hashes(s.generated)) for s in sequences]
    step = every or 1
    kept = [_sample(h, step) for h in hashes]
    while every is None and sum(k.size for k in kept) > MAX_HASHES:
        step *= 2
        kept = [_sample(h, step) for h in hashes]
    return Fingerprint(
        every=step,
        sequences=tuple(
            SequencePrint(
                sequence=s.index,
                tokens=_digest(s.tokens),
                generated=_digest(s.generated),
                length=len(s.generated),
                ngrams=np.unique((k & _LOW).astype(np.uint32)),
            )
            for s, k in zip(sequences, kept, strict=True)
        ),
    )


def _ngram_hashes(tokens: npt.NDArray[np.int32]) -> U64:
    """Return a 64-bit hash of every run of NGRAM tokens."""
    count = max(0, len(tokens) - NGRAM + 1)
    wide, out = tokens.astype(np.uint64), np.zeros(count, np.uint64)
    for place in range(NGRAM):
        out = out * np.uint64(0x9E3779B97F4A7C15) + wide[place : place + count] + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64's finish
        out = (out ^ (out >> np.uint64(shift))) * np.uint64(factor)
    return out ^ (out >> np.uint64(31))


def _sample(hashes: U64, every: int) -> U64:
    kept: U64 = hashes[(hashes >> np.uint64(32)) % np.uint64(every) == 0]
    return kept


def _digest(tokens: npt.NDArray[np.int32]) -> str:
    return hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest()[:16]


def fingerprint_json(found: Fingerprint) -> dict[str, Any]:
    """Return a fingerprint as reports and sidecars hold it: n-grams as base64 of three bytes each, lowest first."""
    return {
        "ngram": NGRAM,
        "every": found.every,
        "sequences": [
            {
                "sequence": s.sequence,
                "tokens": s.tokens,
                "generated": s.generated,
                "length": s.length,
                "ngrams": base64.b64encode(_packed(s.ngrams)).decode(),
            }
            for s in found.sequences
        ],
    }


def _packed(ngrams: U32) -> bytes:
    """Return three bytes a value, the lowest first."""
    return ngrams.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


def parse_fingerprint(raw: Any) -> Fingerprint | None:
    """Return the fingerprint that ``raw`` holds, None when it is not one that this version writes."""
    try:
        every = raw["every"]
        if raw["ngram"] != NGRAM or type(every) is not int or not 1 <= every <= MAX_EVERY or every & (every - 1):
            return None
        return Fingerprint(every=every, sequences=tuple(map(_parse_sequence, raw["sequences"])))
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        return None


def _parse_sequence(raw: Mapping[str, Any]) -> SequencePrint:
    packed = np.frombuffer(base64.b64decode(raw["ngrams"], validate=True), np.uint8).reshape(-1, 3).astype(np.uint32)
    digests, numbers = (raw["tokens"], raw["generated"]), (raw["sequence"], raw["length"])
    if not all(_DIGEST.fullmatch(d) for d in digests) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError
    return SequencePrint(
        sequence=numbers[0],
        tokens=digests[0],
        generated=digests[1],
        length=numbers[1],
        ngrams=np.unique(packed[:, 0] | packed[:, 1] << np.uint32(8) | packed[:, 2] << np.uint32(16)),
    )


def find_repeats(found: Fingerprint) -> tuple[tuple[int, int], ...]:
    """Return the numbers of sequences that are equal to an earlier one of the same set: (earlier, later)."""
    out, seen = list[tuple[int, int]](), dict[str, int]()
    for one in found.sequences:
        keys = [f"t{one.tokens}"] + [f"g{one.generated}"] * (one.length >= _SHORTEST)
        out += [(seen[k], one.sequence) for k in keys if k in seen][:1]
        seen |= {k: seen.get(k, one.sequence) for k in keys}
    return tuple(out)


def compare_fingerprints(mine: Fingerprint, calibration: Fingerprint) -> Overlap:
    """Return what ``mine`` shares with what calibrated; both must be samples of one ``every``."""
    theirs = calibration.sequences
    grams = np.concatenate([np.zeros(0, np.uint32), *(s.ngrams for s in theirs)])
    owners = np.repeat(np.arange(len(theirs)), [s.ngrams.size for s in theirs])
    order = np.argsort(grams, kind="stable")
    grams, owners = grams[order], owners[order]
    matches, best, total, common = list[Match](), list[Match](), 0, 0
    for one in mine.sequences:
        low, high = (np.searchsorted(grams, one.ngrams, side) for side in ("left", "right"))
        total, common = total + one.ngrams.size, common + int(np.count_nonzero(high > low))
        shared = np.bincount(owners[_ranges(low, high)], minlength=len(theirs))
        found = [_match(one, theirs[n], int(shared[n]), every=mine.every) for n in _candidates(one, theirs, shared)]
        matches += [m for m in sorted(found, key=_rank)[:1] if m.equal or m.copied]
        best += [m for m in found if m.share > 0 or m.equal]
    return Overlap(
        every=mine.every,
        share=common / total if total else 0.0,
        matches=tuple(matches),
        closest=min(best, key=_rank) if best else None,
    )


def _ranges(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return all numbers low[0] to high[0] - 1, low[1] to high[1] - 1, and so on."""
    sizes = high - low
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(low)], sizes)
    return np.asarray(starts + np.arange(int(sizes.sum())), np.int64)


def _candidates(one: SequencePrint, theirs: Sequence[SequencePrint], shared: npt.NDArray[Any]) -> Iterable[int]:
    """Return which sequences may be the closest: those of the largest shares, and equal ones."""
    least = np.minimum([s.ngrams.size for s in theirs], one.ngrams.size)
    shares = shared / np.maximum(1, least)
    equal = [n for n, s in enumerate(theirs) if s.equals(one)]
    return dict.fromkeys([*equal, *np.argsort(-shares, kind="stable")[:_LOOKED_AT].tolist()])


def _match(one: SequencePrint, other: SequencePrint, shared: int, *, every: int) -> Match:
    shorter = min(one, other, key=lambda s: s.ngrams.size)
    size = shorter.ngrams.size
    allowed = NGRAM * (1 + shorter.length // EDIT_SPAN) / every
    return Match(
        mine=one.sequence,
        other=other.sequence,
        share=shared / size if size else 0.0,
        equal=one.equals(other),
        copied=shared >= max(2, EVIDENCE // every) and size - shared <= allowed,
    )


def _rank(match: Match) -> tuple[bool, bool, float, int, int]:
    """Order matches: equal ones first, then copies, then by share."""
    return not match.equal, not match.copied, -match.share, match.mine, match.other
