"""Traces exactly as Forge's recorder leaves them: cut by a limit or an end token inside a cycle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.drafter.draft import Drafter
from forgepack.drafter.replay import open_traces
from forgepack.errors import CorruptError
from forgepack.parallel import open_pool
from tests.recorder import random_rows, replay, simulate
from tests.synthetic import GEOMETRY, Recorded, make_weights, plain_drafter, write_traces

BLOCK = GEOMETRY.block
END = 3

cycles = st.lists(st.integers(0, BLOCK - 1), max_size=12)
recordings = st.builds(
    lambda plen, ms, limit, end, seed: recording(plen, ms, limit=limit, end=end, seed=seed),
    plen=st.integers(1, 30),
    ms=cycles,
    limit=st.integers(1, 40),
    end=st.sampled_from([-1, END]),
    seed=st.integers(0, 99),
)


def recording(plen: int, ms: list[int], *, limit: int, end: int, seed: int) -> Recorded:
    """Record random tokens; every tenth or so is an end token."""
    rng = np.random.default_rng(seed)
    prompt, truth = rng.integers(4, 40, plen).tolist(), rng.integers(END, 12, 60).tolist()
    return simulate(prompt, truth, ms, limit=limit, end=end, seed=seed)


def read(folder: Path, *sequences: Recorded) -> TraceSet:
    return read_traces(write_traces(folder / "traces.npz", list(sequences)), GEOMETRY)


@settings(deadline=None, max_examples=40)
@given(recordings)
def test_every_recording_is_taken(tmp_path_factory: pytest.TempPathFactory, sequence: Recorded) -> None:
    """Wherever it was cut: rows and cycles beyond the tokens are counted, the rest is used."""
    traces = read(tmp_path_factory.mktemp("t"), sequence)
    (found,) = traces.sequences
    length, rows = len(sequence.tokens), len(sequence.features)
    starts = sequence.plen + np.concatenate([[0], np.cumsum(sequence.accepted.astype(int) + 1)])[:-1].astype(int)
    walked = [int(p) for p in starts if p + BLOCK <= length]
    assert walked == found.positions.tolist()
    assert (len(starts) - len(walked), max(0, rows - length)) == (found.ignored, found.beyond)
    assert traces.identity is None
    assert np.array_equal(sequence.features[:length].reshape(-1, GEOMETRY.features), traces.features(0))


def test_a_cut_may_leave_block_less_one_rows_and_no_more(tmp_path: Path) -> None:
    """Up to block - 1 rows lie beyond the tokens; one more is another recorder's, or damage."""
    tokens, accepted = np.arange(5, 25, dtype=np.int32), np.array([2, 3], np.int8)
    for beyond in range(BLOCK):
        rows = random_rows(len(tokens) + beyond, 1)
        (found,) = read(tmp_path, Recorded(tokens=tokens, plen=9, features=rows, accepted=accepted)).sequences
        assert (beyond, len(tokens)) == (found.beyond, found.rows)
    rows = random_rows(len(tokens) + BLOCK, 1)
    with pytest.raises(CorruptError, match=f"expected: 9..{len(tokens) + BLOCK - 1} feature rows for 20 tokens"):
        read(tmp_path, Recorded(tokens=tokens, plen=9, features=rows, accepted=accepted))


def test_what_lies_beyond_is_never_judged(tmp_path: Path) -> None:
    """A value that is not finite in a row beyond the tokens feeds nothing and harms nothing."""
    sequence = simulate([5] * 6, list(range(4, 40)), [1, 3], limit=4)
    assert len(sequence.features) > len(sequence.tokens)
    sequence.features[-1, 0, 0] = np.nan
    assert np.isfinite(read(tmp_path, sequence).features(0)).all()


@settings(deadline=None, max_examples=25)
@given(
    sequence=st.builds(
        lambda plen, limit, trust, seed: drafted(plen, limit, trust, seed=seed),
        plen=st.integers(1, 16),
        limit=st.integers(1, 36),
        trust=st.lists(st.integers(0, BLOCK - 1), min_size=12, max_size=12),
        seed=st.integers(0, 9),
    ),
    short=st.integers(0, 9),
)
def test_replay_counts_blocks_as_the_recorder_does(
    tmp_path_factory: pytest.TempPathFactory, drafter: Drafter, sequence: Recorded, short: int
) -> None:
    """Acceptance over any recording equals the reference's, block by block, also where features end early."""
    rows = sequence.features[: max(sequence.plen, len(sequence.features) - short)]
    sequence = replace(sequence, features=rows)
    with open_pool(1) as pool:
        found = open_traces(drafter, read(tmp_path_factory.mktemp("t"), sequence), pool).replay()
    assert replay(plain_drafter(make_weights()), sequence, BLOCK) == found.sequences[0].accepted.tolist()


def drafted(plen: int, limit: int, trust: list[int], *, seed: int) -> Recorded:
    """Record tokens that follow the drafter's drafts for ``trust[n]`` places of block n, cut at ``limit``."""
    rng = np.random.default_rng(seed)
    rows = random_rows(plen + len(trust) * BLOCK, seed).reshape(-1, GEOMETRY.features)
    plain, p = plain_drafter(make_weights()), plen
    tokens = rng.integers(0, GEOMETRY.vocab - 4, len(rows) + BLOCK).tolist()
    plain.add_context(rows[:p], 0)
    for m in trust:
        drafts = plain.propose(tokens[p], p)
        tokens[p + 1 : p + 1 + m] = drafts[:m]
        if m < BLOCK - 1 and tokens[p + 1 + m] == drafts[m]:
            tokens[p + 1 + m] = (drafts[m] + 1) % (GEOMETRY.vocab - 4)
        plain.add_context(rows[p : p + m + 1], p)
        p += m + 1
    found = simulate(tokens[:plen], tokens[plen:], trust, limit=limit)
    return Recorded(
        tokens=found.tokens,
        plen=plen,
        features=rows[: len(found.features)].reshape(-1, len(GEOMETRY.taps), GEOMETRY.hidden),
        accepted=found.accepted,
    )


def test_a_block_whose_commit_has_no_features_is_not_counted(drafter: Drafter, tmp_path: Path) -> None:
    """The last block accepts all its drafts, one row is missing for the commit: the walk ends before it."""
    whole = drafted(6, 5 + BLOCK, [0, 1, 1, BLOCK - 1], seed=3)
    short = Recorded(
        tokens=whole.tokens, plen=6, features=whole.features[: len(whole.tokens) - 1], accepted=whole.accepted
    )
    with open_pool(1) as pool:
        counts = [
            [s.accepted.tolist() for s in open_traces(drafter, read(tmp_path, one), pool).replay().sequences]
            for one in (whole, short)
        ]
    assert [[[0, 1, 1, BLOCK - 1]], [[0, 1, 1]]] == counts
    assert [4, 3] == [read(tmp_path, one).sequences[0].counted for one in (whole, short)]


def test_only_the_last_rows_of_a_long_prompt_feed(tmp_path: Path) -> None:
    """No block sees a row before the ring; rows behind the prompt always feed."""
    window = GEOMETRY.window
    for plen, first in ((window - 1, 0), (window, 0), (window + 5, 5), (3 * window, 2 * window)):
        sequence = simulate([5] * plen, list(range(4, 40)), [1, 3, 2], limit=30)
        (found,) = read(tmp_path, sequence).sequences
        assert slice(first, found.context_rows) == found.fed_rows(window)
