"""Synthetic drafters and traces, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import LutHead
from forgepack.drafter.weights import ArrayWeights
from forgepack.parallel import Pool, open_pool
from tests.synthetic import GEOMETRY, Recorded, make_embedding, make_head, make_weights, record, write_traces


class Table:
    """An embedding table in memory."""

    def table(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return make_embedding()


@pytest.fixture(scope="session")
def recorded() -> list[Recorded]:
    """Three sequences, two of them longer than the window; the last one has a single block."""
    weights = make_weights()
    lengths = [(40, 5), (33, 14), (9, 5)]
    return [record(weights, length=n, plen=p, seed=s) for s, (n, p) in enumerate(lengths)]


@pytest.fixture(scope="session")
def traces(recorded: list[Recorded], tmp_path_factory: pytest.TempPathFactory) -> TraceSet:
    path: Path = tmp_path_factory.mktemp("traces") / "traces.npz"
    return read_traces(write_traces(path, recorded), GEOMETRY)


@pytest.fixture(scope="session")
def drafter() -> Drafter:
    head = make_head()
    lut_head = LutHead(lut=head["lm_head.lut"], indices=head["lm_head.idx"], scale=head["lm_head.scale"])
    weights = ArrayWeights(geometry=GEOMETRY, tensors=make_weights())
    return Drafter(weights=weights, head=lut_head, embedding=Table(), mask_scale=0.7)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with open_pool(1) as opened:
        yield opened
