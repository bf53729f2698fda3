"""One difference, and how the values of two arrays differ: by how much, in how many places."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from forgepack.errors import ForgepackError

DiffKind = Literal[
    "kind",
    "file",
    "bytes",
    "field",
    "text",
    "taps",
    "tensor",
    "values",
    "matrix",
    "tokens",
    "constant",
    "program",
    "unread",
]
Array = npt.NDArray[Any]
_SPAN = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How two arrays of one shape differ, over values that are finite on both sides.

    ``relative`` is the RMS of the difference over the RMS of the left side; ``unmatched`` counts values that are not
    finite on one side or on both.
    """

    elements: int
    differing: int
    maximum: float
    rms: float
    relative: float
    unmatched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference: ``file`` below what is compared, ``place`` in it, both sides, and the rules that fail there.

    A side that has nothing there is None, which no text that it may hold equals.

    ``rules`` are those by which the verifier refuses something in this file of the right side.
    """

    kind: DiffKind
    file: str
    place: str
    left: str | None
    right: str | None
    amount: Amount | None = None
    note: str = ""
    rules: tuple[str, ...] = ()


def unread(file: str, err: ForgepackError) -> Difference:
    """Return the difference that stands for content which could not be compared."""
    place = (err.where or "").rsplit("/", maxsplit=1)[-1]
    note = f"not compared by content: {place}: {err.what}" if place else f"not compared by content: {err.what}"
    return Difference(kind="unread", file=file, place="", left="", right="", note=note)


def measure(left: Array, right: Array) -> Amount:
    """Return how two arrays of one shape differ, read in spans; both may be memory maps of any dtype."""
    return measure_blocks(_pairs(left.reshape(-1), right.reshape(-1)))


def _pairs(left: Array, right: Array) -> Iterator[tuple[Array, Array]]:
    for start in range(0, left.size, _SPAN):
        yield left[start : start + _SPAN], right[start : start + _SPAN]


def measure_blocks(blocks: Iterator[tuple[Array, Array]]) -> Amount:
    """Return how two arrays differ that come in blocks of equal shapes."""
    elements = differing = unmatched = 0
    maximum = squares = base = 0.0
    for one, other in blocks:
        elements += one.size
        wide = [np.asarray(part, np.float64) for part in (one, other)]
        finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
        unmatched += int(np.count_nonzero(~finite))
        unlike = (wide[0] != wide[1]) & ~(np.isnan(wide[0]) & np.isnan(wide[1]))
        differing += int(np.count_nonzero(unlike))
        gap = (
            np.where(
                finite,
                wide[0] - wide[1],
                0.0,
            )
            if unmatched
            else wide[0] - wide[1]
        )
        maximum = max(maximum, float(np.abs(gap).max(initial=0.0)))
        squares += float(np.dot(gap.reshape(-1), gap.reshape(-1)))
        known = np.where(finite, wide[0], 0.0).reshape(-1)
        base += float(np.dot(known, known))
    count = max(1, elements - unmatched)
    return Amount(
        elements=elements,
        differing=differing,
        maximum=maximum,
        rms=math.sqrt(squares / count),
        relative=math.sqrt(squares / base) if base else (0.0 if not squares else math.inf),
        unmatched=unmatched,
    )


def equal_bytes(left: Array, right: Array) -> bool:
    """Say whether two flat uint8 arrays are equal, read in spans."""
    if left.size != right.size:
        return False
    return all(bool((a == b).all()) for a, b in _pairs(left, right))
