"""NUM at depth run: the package computes what the drafter is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from forgepack.verify.checks.faults import reported_row
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


@rule(
    "NUM020",
    title="both entry points run, and every output is finite and of its shape",
    why="float16 overflows in silence: one NaN makes the selector take the first ids of the vocabulary",
    remedy="emit the package again; report the values that overflow",
    depth="run",
    needs=("execution",),
)
def finite_outputs(pair: Pair) -> Iterator[Finding]:
    """No call on the CPU returns a value that is not finite, or another shape than the geometry's."""
    for name, one in sorted(pair.execution.value.worst().items()):
        if math.isinf(one.share):
            yield Finding(subject=name, expected="finite values of its shape", found="others", where=one.where)


@rule(
    "NUM021",
    title="every output is near the float32 reference, at worst and in the median",
    why="a graph with a wrong fold or a wrong axis still drafts; only its numbers show it",
    remedy="emit the package again; a deviation that stays is a fault of the emitter",
    depth="run",
    needs=("execution",),
    after=("NUM020",),
    waivable=True,
)
def near_reference(pair: Pair) -> Iterator[Finding]:
    """Outputs deviate by at most 1e-2 of the reference's largest value in any call, and 5e-3 in the median call.

    A median is taken of eight calls or more. Without traces, on seeded features, five times as much is allowed.
    """
    run = pair.execution.value
    for name, one in sorted(run.worst().items()):
        if run.worst_allowed < one.share < math.inf:
            yield Finding(
                subject=name, expected=f"at most {run.worst_allowed:g}", found=f"{one.share:.2e}", where=one.where
            )
    for name, share in sorted(run.typical().items()):
        if run.typical_allowed < share < math.inf:
            yield Finding(
                subject=name, expected=f"at most {run.typical_allowed:g} in the median", found=f"{share:.2e}"
            )


@rule(
    "NUM022",
    title="on the given traces the package drafts what the reference drafts",
    why="small deviations flip near ties, but many other drafts mean another drafter",
    remedy="emit the package again; compare block by block with forgepack replay",
    depth="run",
    needs=("execution", "traces"),
    after=("NUM020", "NUM021"),
)
def same_drafts(pair: Pair) -> Iterator[Finding]:
    """At least nine blocks of ten have all drafts equal to those of the float32 reference."""
    run = pair.execution.value
    share = run.agreeing / run.blocks if run.blocks else 1.0
    if share < 0.9:
        found = f"{run.agreeing} of {run.blocks}"
        yield Finding(subject="blocks drafted alike", expected="at least 90%", found=found)


ROWS = (
    reported_row(
        "NUM030",
        demand=(
            "In each sequence no row of a tap is zero, every tap varies over rows, and none is a fit of another one."
        ),
        title="every tap of the given traces is alive, and another layer's state",
        why="a dead, constant or repeated tap fits every shape, and package and reference agree on it all the same",
        remedy="record the traces again, with a hook on each of the profile's tap layers",
        depth="run",
        codes=("traces-taps",),
        since=2,
        closes="traces with dead or equal taps passed",
    ),
)
