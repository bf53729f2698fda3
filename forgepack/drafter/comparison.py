"""Several drafters over the same traces: acceptance of each, and each compared with the first, block by block.

Acceptance is blind to mild faults: a drafter that drafts otherwise in a fifth of all blocks may accept as much. So
the others are drafted again on the first one's schedule, and equal drafts are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.traces import TraceSet
from forgepack.drafter.draft import Drafter
from forgepack.drafter.replay import ReplayResult, open_traces
from forgepack.drafter.statistics import (
    Acceptance,
    Agreement,
    Estimate,
    agree,
    difference,
    equal_drafts,
    summarise,
    tally,
)
from forgepack.parallel import Pool

I64 = npt.NDArray[np.int64]

# A rounded drafter accepts a little less than the recorder's; only what is surely another acceptance is reported.
RECORDED_CONFIDENCE = 0.99
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A drafter to measure, under a name."""

    name: str
    drafter: Drafter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Against:
    """One drafter compared with the reference, on the reference's schedule.

    ``equal`` counts for each block how many drafts from the first on are equal; ``difference`` is the mean of
    accepted drafts minus the reference's, each on its own schedule.
    """

    equal: list[I64]
    agreement: Agreement
    difference: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Acceptance as the traces record it, over the blocks that a replay counts, beside a drafter's own.

    ``difference`` is the drafter's mean minus the recorded one, paired by sequence, with its 99% interval.
    """

    mean: float
    blocks: int
    difference: Estimate

    @property
    def outside(self) -> bool | None:
        """Whether the drafter's acceptance is outside the interval around the recorded one; None without one."""
        interval = self.difference.interval
        return None if interval is None else not interval[0] - _NOISE <= 0 <= interval[1] + _NOISE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """One drafter's walk and what it says; ``against`` is None for the reference itself.

    ``as_recorded`` says whether the walk gives exactly the traces' recorded blocks, ``recorded`` how far its
    acceptance is from theirs.
    """

    name: str
    result: ReplayResult
    acceptance: Acceptance
    as_recorded: bool
    recorded: Recorded
    against: Against | None


def compare(
    variants: Sequence[Variant], traces: TraceSet, *, pool: Pool, note: Callable[[str], None] | None = None
) -> list[Measured]:
    """Replay every variant, one after another, the first one as the reference; ``note`` gets each name."""
    drafts = traces.geometry.block - 1
    out: list[Measured] = []
    for variant in variants:
        if note is not None:
            note(variant.name)
        tracked = open_traces(variant.drafter, traces, pool)
        result = tracked.replay()
        reference = out[0].result if out else None
        against = None
        if reference is not None:
            equal = equal_drafts([s.drafts for s in reference.sequences], tracked.drafts_at(reference.schedule))
            against = Against(
                equal=equal,
                agreement=agree(equal, drafts),
                difference=difference(tally(result.accepted), tally(reference.accepted)),
            )
        out.append(
            Measured(
                name=variant.name,
                result=result,
                acceptance=summarise(result.accepted, drafts),
                as_recorded=_as_recorded(result, traces),
                recorded=_recorded(result, traces),
                against=against,
            )
        )
    return out


def _recorded(result: ReplayResult, traces: TraceSet) -> Recorded:
    found = tally([s.accepted[: s.counted] for s in traces.sequences])
    apart = difference(tally(result.accepted), found, confidence=RECORDED_CONFIDENCE)
    return Recorded(mean=found.mean, blocks=found.blocks, difference=apart)


def _as_recorded(result: ReplayResult, traces: TraceSet) -> bool:
    """Say whether the walk starts with every recorded block; it may go on where a recording was stopped."""
    for replayed, recorded in zip(result.sequences, traces.sequences, strict=True):
        count = recorded.counted
        same = np.array_equal(replayed.positions[:count], recorded.positions[:count])
        if not same or not np.array_equal(replayed.accepted[:count], recorded.accepted[:count]):
            return False
    return True
