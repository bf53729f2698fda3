"""Several drafters over the same traces: acceptance of each, agreement of each with the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgepack.artifacts.traces import TraceSet
from forgepack.drafter.batch import TokenRows
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import Head
from forgepack.drafter.replay import ReplayResult, open_traces
from forgepack.drafter.statistics import Acceptance, agreement, summarise
from forgepack.drafter.weights import DrafterWeights
from forgepack.parallel import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A drafter to compare: its weights, head and mask scale under a name."""

    name: str
    weights: DrafterWeights
    head: Head
    mask_scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One variant's result. ``agreement`` is the share of blocks, on the first variant's schedule, with equal drafts.

    ``as_recorded`` says whether its walk gives exactly the traces' recorded blocks.
    """

    name: str
    acceptance: Acceptance
    agreement: float
    as_recorded: bool


def compare(
    variants: Sequence[Variant],
    traces: TraceSet,
    embedding: TokenRows,
    *,
    pool: Pool,
    note: Callable[[str], None] | None = None,
) -> list[Comparison]:
    """Replay every variant, one after another; ``note`` is told the name of each that begins."""
    out: list[Comparison] = []
    first: ReplayResult | None = None
    for variant in variants:
        if note is not None:
            note(variant.name)
        drafter = Drafter(
            weights=variant.weights, head=variant.head, embedding=embedding, mask_scale=variant.mask_scale
        )
        tracked = open_traces(drafter, traces, pool)
        result = tracked.replay()
        first = first or result
        drafts = [s.drafts for s in first.sequences]
        here = drafts if result is first else tracked.drafts_at(first.schedule)
        out.append(
            Comparison(
                name=variant.name,
                acceptance=summarise(result.accepted, drafter.geometry.block - 1),
                agreement=agreement(drafts, here),
                as_recorded=_as_recorded(result, traces),
            )
        )
    return out


def _as_recorded(result: ReplayResult, traces: TraceSet) -> bool:
    """Say whether the walk starts with every recorded block; it may go on where a recording was stopped."""
    for replayed, recorded in zip(result.sequences, traces.sequences, strict=True):
        count = recorded.positions.size
        same = np.array_equal(replayed.positions[:count], recorded.positions)
        if not same or not np.array_equal(replayed.accepted[:count], recorded.accepted):
            return False
    return True


def comparison_json(item: Comparison) -> dict[str, Any]:
    """Return what replay.schema.json calls a result."""
    accepted = item.acceptance
    return {
        "acceptance": {
            "mean": accepted.mean,
            "standard_error": accepted.standard_error,
            "at_least": list(accepted.at_least),
            "blocks": accepted.blocks,
            "sequences": accepted.sequences,
            "tokens_per_call": accepted.mean + 1,
        },
        "agreement": item.agreement,
        "as_recorded": item.as_recorded,
    }
