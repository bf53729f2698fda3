"""Forge's recorder and replay, written anew from the release contract (section 3) and used as the reference.

``simulate`` stops APPENDING tokens at an end token or at its limit, inside a cycle too, and keeps that cycle's
feature rows and m: so rows and the last m may reach past the tokens, by block - 1 at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from forgepack.geometry import Geometry
from tests.drafter.plain import PlainDrafter
from tests.synthetic import GEOMETRY, Recorded

Rows = npt.NDArray[np.float16]
Propose = Callable[[list[int], int], list[int]]


def random_rows(count: int, seed: int, geometry: Geometry = GEOMETRY) -> Rows:
    """Features of a target: a few directions, noise and some loud channels, float16 (count, taps, hidden)."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((6, geometry.features))
    rows = rng.standard_normal((count, 6)) @ mix + 0.3 * rng.standard_normal((count, geometry.features))
    rows[:, ::17] *= 8
    return rows.astype(np.float16).reshape(count, len(geometry.taps), geometry.hidden)


def simulate(
    prompt: list[int], truth: list[int], accepted: Iterable[int], *, limit: int, end: int = -1, seed: int = 0
) -> Recorded:
    """Record a sequence whose greedy continuation is ``truth``: cycle by cycle until ``limit`` or ``end`` is met."""
    tokens, p, rows, kept = [*prompt, truth[0]], len(prompt), len(prompt), []
    done = limit <= 1 or truth[0] == end
    for m in accepted:
        if done:
            break
        emitted = truth[p - len(prompt) + 1 : p - len(prompt) + m + 2]
        for token in emitted:
            tokens.append(token)
            done = token == end or len(tokens) - len(prompt) >= limit
            if done:
                break
        kept.append(m)
        rows += m + 1
        p += m + 1
    return Recorded(
        tokens=np.array(tokens, np.int32),
        plen=len(prompt),
        features=random_rows(rows, seed),
        accepted=np.array(kept, np.int8),
    )


def replay(drafter: PlainDrafter, sequence: Recorded, block: int) -> list[int]:
    """Forge's replay: m of each counted block; a block whose commit runs past the features ends it uncounted."""
    rows = sequence.features.reshape(len(sequence.features), -1)
    tokens, p, out = sequence.tokens.tolist(), sequence.plen, []
    drafter.add_context(rows[:p], 0)
    while p + block <= len(tokens):
        drafts = drafter.propose(tokens[p], p)
        m = 0
        while m < block - 1 and drafts[m] == tokens[p + 1 + m]:
            m += 1
        if p + m + 1 > len(rows):
            break
        out.append(m)
        drafter.add_context(rows[p : p + m + 1], p)
        p += m + 1
    return out
