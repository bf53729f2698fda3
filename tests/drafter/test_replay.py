"""Replay: the batched float32 drafter against a plain reading of the contract, one block at a time."""

from __future__ import annotations

import numpy as np
import pytest

from forgepack.artifacts.traces import TraceSet
from forgepack.drafter.batch import SequenceBlocks, make_batch
from forgepack.drafter.draft import Drafter
from forgepack.drafter.replay import count_accepted, open_traces
from forgepack.parallel import Pool, open_pool
from tests.synthetic import GEOMETRY, Recorded, make_weights, plain_drafter


def test_replay_reproduces_the_recorded_blocks(drafter: Drafter, traces: TraceSet, pool: Pool) -> None:
    """Walking with the drafter that recorded the traces gives the recorded m of every block."""
    result = open_traces(drafter, traces, pool).replay()
    for sequence, replayed in zip(traces.sequences, result.sequences, strict=True):
        assert sequence.positions.tolist() == replayed.positions.tolist()
        assert sequence.accepted.tolist() == replayed.accepted.tolist()


def test_drafts_equal_the_plain_drafter_at_every_position(
    drafter: Drafter, traces: TraceSet, recorded: list[Recorded], pool: Pool
) -> None:
    """At positions of any alignment with the ring, drafts equal those of a ring filled row by row."""
    schedule = [np.arange(s.plen, len(s.tokens) - GEOMETRY.block + 1) for s in traces.sequences]
    found = open_traces(drafter, traces, pool).drafts_at(schedule)
    for sequence, at, drafts in zip(recorded, schedule, found, strict=True):
        plain = plain_drafter(make_weights())
        plain.add_context(sequence.features.reshape(len(sequence.features), -1)[: at[0]], 0)
        for p, row in zip(at, drafts, strict=True):
            assert plain.propose(int(sequence.tokens[p]), int(p)) == row.tolist()
            plain.add_context(sequence.features.reshape(len(sequence.features), -1)[p : p + 1], int(p))


def test_hidden_rows_match_float64(drafter: Drafter, recorded: list[Recorded], traces: TraceSet, pool: Pool) -> None:
    """The final norm's output is within float32's error of the plain drafter's, ring wrapped or not."""
    tracked = open_traces(drafter, traces, pool)
    for number, p in ((0, 6), (0, 30), (1, 20)):
        plain = plain_drafter(make_weights())
        plain.add_context(recorded[number].features.reshape(len(recorded[number].features), -1)[:p], 0)
        anchor = int(recorded[number].tokens[p])
        blocks = SequenceBlocks(context=tracked.contexts[number], positions=np.array([p]), anchors=np.array([anchor]))
        found = drafter.hidden(make_batch([blocks]), pool)[0]
        np.testing.assert_allclose(found, plain.hidden(anchor, p), rtol=0, atol=2e-5)


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_mask_scale_changes_drafts_as_the_plain_drafter_says(
    drafter: Drafter, traces: TraceSet, recorded: list[Recorded], pool: Pool, scale: float
) -> None:
    """Another mask scale multiplies rows 1.. of layer 0's norm output alone."""
    other = Drafter(weights=drafter.weights, head=drafter.head, embedding=drafter.embedding, mask_scale=scale)
    p, sequence = 9, recorded[0]
    plain = plain_drafter(make_weights(), mask_scale=scale)
    plain.add_context(sequence.features.reshape(len(sequence.features), -1)[:p], 0)
    blocks = SequenceBlocks(
        context=open_traces(other, traces, pool).contexts[0],
        positions=np.array([p]),
        anchors=np.array([int(sequence.tokens[p])]),
    )
    found = other.hidden(make_batch([blocks]), pool)[0]
    np.testing.assert_allclose(found, plain.hidden(int(sequence.tokens[p]), p), rtol=0, atol=2e-5)


def test_workers_do_not_change_a_bit(drafter: Drafter, traces: TraceSet) -> None:
    """One and three threads give the same bytes of context, ring and hidden rows."""
    results = []
    for workers in (1, 3):
        with open_pool(workers) as pool:
            tracked = open_traces(drafter, traces, pool)
            blocks = SequenceBlocks(context=tracked.contexts[0], positions=np.arange(5, 36), anchors=np.arange(31))
            hidden = drafter.hidden(make_batch([blocks]), pool)
            results.append((tracked.contexts[1].tobytes(), tracked.ring[1][0][0].tobytes(), hidden.tobytes()))
    assert results[0] == results[1]


def test_another_drafter_walks_its_own_schedule(drafter: Drafter, traces: TraceSet, pool: Pool) -> None:
    """A drafter with other weights leaves the recorded schedule and walks on to the end of each sequence."""
    from forgepack.drafter.weights import ArrayWeights

    weights = ArrayWeights(geometry=GEOMETRY, tensors=make_weights(seed=5))
    other = Drafter(weights=weights, head=drafter.head, embedding=drafter.embedding, mask_scale=0.7)
    result = open_traces(other, traces, pool).replay()
    assert [s.positions.tolist() for s in traces.sequences] != [s.positions.tolist() for s in result.sequences]
    for sequence, replayed in zip(traces.sequences, result.sequences, strict=True):
        steps = np.diff([*replayed.positions, replayed.positions[-1] + replayed.accepted[-1] + 1])
        assert (replayed.accepted + 1).tolist() == steps.tolist()
        end = int(replayed.positions[-1] + replayed.accepted[-1] + 1)
        assert end + GEOMETRY.block > len(sequence.tokens) or end > sequence.rows
        counted = count_accepted(replayed.drafts, sequence.tokens, replayed.positions)
        assert counted.tolist() == replayed.accepted.tolist()


def test_count_accepted_counts_the_prefix_alone() -> None:
    """A match after the first difference does not count."""
    tokens = np.array([9, 1, 2, 3, 4, 5], np.int32)
    drafts = np.array([[1, 2, 3], [2, 2, 4], [1, 0, 3]])
    assert [3, 1, 1] == count_accepted(drafts, tokens, np.array([0, 1, 0])).tolist()
