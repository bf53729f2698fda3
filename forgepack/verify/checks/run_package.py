"""The run of a pair's package: on its traces, or on seeded features without any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from forgepack.errors import CorruptError
from forgepack.parallel import open_pool
from forgepack.verify.inputs.execution import (
    SYNTHETIC_ALLOWANCE,
    Execution,
    Sample,
    compare_outputs,
    synthetic_sample,
)
from forgepack.verify.inputs.pair import Pair


def execute(pair: Pair) -> Execution:
    """Run the package on the pair's traces, or on seeded features without any."""
    from forgepack.coreai_backend.execute import open_session
    from forgepack.drafter.draft import Drafter
    from forgepack.emit.package_weights import PackageHead, PackageWeights, open_role_values

    comparison, reading = pair.comparison.value, pair.program.value
    if not comparison.same:
        raise CorruptError("another program than this tool's can't be compared with it", code="foreign-graph")
    geometry, recipe = pair.profile.geometry, pair.profile.recipe
    with (
        open_role_values(reading, comparison.roles, seconds=pair.seconds) as values,
        open_session(pair.asset.value, seconds=pair.seconds) as session,
        open_pool(2) as pool,
    ):
        drafter = Drafter(
            weights=PackageWeights(geometry=geometry, recipe=recipe, values=values, selector=pair.selector.value),
            head=PackageHead(geometry=geometry, recipe=recipe, values=values),
            embedding=pair.embedding.value,
            mask_scale=recipe.mask_scale,
        )
        run = compare_outputs(session, drafter, list(_samples(pair)), feat_scale=recipe.feat_scale, pool=pool)
    return run if pair.sources.traces is not None else replace(run, allowance=SYNTHETIC_ALLOWANCE)


def _samples(pair: Pair) -> Iterator[Sample]:
    if pair.sources.traces is None:
        yield synthetic_sample(pair.profile.geometry, blocks=pair.blocks)
        return
    traces = pair.traces.value
    busy = [s for s in traces.sequences if s.positions.size]
    for number, sequence in enumerate(busy):
        positions = sequence.positions
        if (
            pair.blocks is not None
        ):  # shared out evenly: the first blocks of each sequence, the rest to the first ones
            positions = positions[: (pair.blocks + len(busy) - 1 - number) // len(busy)]
        if positions.size:
            yield Sample(
                label=f"sequence {sequence.index}",
                features=traces.features(sequence.index),
                positions=positions,
                anchors=sequence.tokens[positions].astype(np.int64),
            )
