"""Depth run: both entry points of the package on the CPU, compared with the float32 reference.

The reference computes with the weights that were read back from the package (lineage proves those), so it shares no
operation with the package's graph. It is fed unscaled features; the package gets what a host would give it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from forgepack.geometry import Geometry
from forgepack.parallel import Pool

if TYPE_CHECKING:
    from forgepack.drafter.draft import Drafter
    from forgepack.drafter.forward import KeyValue
    from forgepack.drafter.host import Session

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

WORST = 1e-2
TYPICAL = 5e-3
# A median says more than the worst call only where there are some.
TYPICAL_CALLS = 8
# Seeded features are like no model's: float16's rounding grows through them. Measured at worst: 1.6e-2 on the
# miniature (3 layers, four seeds), 3.2e-2 at the release's geometry with random weights (5 layers). The graph's own
# roundings make 1.4e-2 of the latter; the rest is the CPU runtime's, which sums products of two activations, queries
# and keys above all, in float16 (convolutions with constants are summed in float32).
SYNTHETIC_ALLOWANCE = 5.0
SEED = 20_26
# rms of the trained miniature's features; the first norm makes their size irrelevant
_FEATURE_SIZE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sequence to run: features (rows, taps x hidden), block starts (n,), anchors (n,)."""

    label: str
    features: npt.NDArray[np.floating]
    positions: I64
    anchors: I64


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """How far one output of one call is from the reference, as a share of the reference's largest value."""

    output: str
    where: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Every deviation of a run, and of how many blocks all drafts equal the reference's."""

    deviations: tuple[Deviation, ...]
    blocks: int
    agreeing: int
    allowance: float = 1.0

    @property
    def worst_allowed(self) -> float:
        """The share that no call may exceed."""
        return WORST * self.allowance

    @property
    def typical_allowed(self) -> float:
        """The share that the median call of an output may not exceed."""
        return TYPICAL * self.allowance

    def worst(self) -> dict[str, Deviation]:
        """Return the largest deviation of each output; a value that is not finite counts as infinite."""
        found: dict[str, Deviation] = {}
        for one in self.deviations:
            if one.output not in found or one.share > found[one.output].share:
                found[one.output] = one
        return found

    def typical(self) -> dict[str, float]:
        """Return the median deviation of each output over its calls, of outputs with eight calls or more."""
        shares: dict[str, list[float]] = {}
        for one in self.deviations:
            shares.setdefault(one.output, []).append(one.share)
        return {name: median(values) for name, values in shares.items() if len(values) >= TYPICAL_CALLS}


def synthetic_sample(geometry: Geometry, *, blocks: int | None = None) -> Sample:
    """Return seeded features and anchors: a prompt longer than one prefill call, then two blocks at most."""
    # RandomState's stream is frozen by NumPy's compatibility policy; Generator's is not.
    random = np.random.RandomState(SEED)
    prompt = geometry.prefill_rows + 3
    rows = prompt + geometry.block
    return Sample(
        label="synthetic",
        features=random.standard_normal((rows, geometry.features)).astype(np.float16) * np.float16(_FEATURE_SIZE),
        positions=np.array([prompt, prompt + 3][:blocks], np.int64),
        anchors=random.randint(0, geometry.vocab, 2).astype(np.int64)[:blocks],
    )


def compare_outputs(
    session: Session, drafter: Drafter, samples: Sequence[Sample], *, feat_scale: float, pool: Pool
) -> Execution:
    """Run every sample through the package and through the reference, and measure every output of every call."""
    from forgepack.drafter.batch import SequenceBlocks, make_batch
    from forgepack.drafter.context import fuse
    from forgepack.drafter.forward import Forward

    contexts = fuse(drafter.weights, (s.features for s in samples), pool)
    forward = Forward(weights=drafter.weights, mask_scale=drafter.mask_scale, pool=pool)
    ring = [forward.ring(layer, contexts) for layer in range(drafter.geometry.layers)]
    batch = make_batch(
        [
            SequenceBlocks(context=context, positions=s.positions, anchors=s.anchors)
            for s, context in zip(samples, contexts, strict=True)
        ]
    )
    hidden = drafter.hidden(batch, pool, ring)
    deviations: list[Deviation] = []
    drafts = []
    for number, sample in enumerate(samples):
        run = _Run(drafter=drafter, pool=pool, sample=sample, ring=[layer[number] for layer in ring])
        expected = hidden[batch.bounds[number] : batch.bounds[number + 1]]
        found, outputs = run.measure(session, expected, feat_scale)
        deviations += found
        drafts += outputs
    reference = drafter.select(hidden, batch.anchors, pool)
    agreeing = sum(bool(np.array_equal(a, b)) for a, b in zip(drafts, reference, strict=True))
    return Execution(deviations=tuple(deviations), blocks=batch.blocks, agreeing=agreeing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    drafter: Drafter
    pool: Pool
    sample: Sample
    ring: list[KeyValue]

    def measure(self, session: Session, hidden: F32, feat_scale: float) -> tuple[list[Deviation], list[I64]]:
        """Walk the sample's blocks as a host does; return all deviations and the package's drafts."""
        from forgepack.drafter.host import Host

        g, sample = self.drafter.geometry, self.sample
        host = Host(session, g, feat_scale=feat_scale, embedding=self.drafter.embedding)
        start = int(sample.positions[0])
        deviations: list[Deviation] = []
        at = 0
        for rows in host.prefill(sample.features[:start], 0):
            count = rows["k_new0"].shape[1]
            deviations += self._rows(g.prefill_entry, rows, at, count)
            at += count
        drafts = []
        for block, (position, anchor) in enumerate(zip(sample.positions, sample.anchors, strict=True)):
            outputs = host.draft(sample.features[at:position], int(position), int(anchor))
            deviations += self._rows("draft", outputs, at, int(position) - at)
            deviations += self._block(outputs, hidden[block], f"{sample.label}, block at {position}")
            drafts.append(self._drafts(outputs, int(anchor)))
            at = int(position)
        return deviations, drafts

    def _rows(self, entry: str, outputs: dict[str, Any], start: int, count: int) -> Iterator[Deviation]:
        where = f"{self.sample.label}, rows {start} to {start + count - 1}"
        for layer, pair in enumerate(self.ring):
            for kind, expected in zip("kv", pair, strict=True):
                name = f"{kind}_new{layer}"
                if count:
                    share = deviation(outputs[name], expected[:, start : start + count])
                    yield Deviation(output=f"{entry}.{name}", where=where, share=share)

    def _block(self, outputs: dict[str, Any], hidden: F32, where: str) -> Iterator[Deviation]:
        from forgepack.drafter.head import logits

        expected = {
            "hidden": hidden.T[None, :, None],
            "hp": self.drafter.project(hidden, self.pool).T[None, :, None],
            "logits": logits(np.ascontiguousarray(hidden[1:]), self.drafter.head, self.pool),
        }
        for name, values in expected.items():
            yield Deviation(output=f"draft.{name}", where=where, share=deviation(outputs[name], values))

    def _drafts(self, outputs: dict[str, Any], anchor: int) -> I64:
        """Return the tokens that the host's selector takes from the package's logits and hp."""
        from forgepack.drafter.selector import select

        scores = np.asarray(outputs["logits"], np.float32)
        ids = np.argsort(-scores, axis=1, kind="stable")[:, : self.drafter.geometry.selector_top_k]
        values = np.take_along_axis(scores, ids, axis=1)
        projected = np.asarray(outputs["hp"], np.float32)[0, :, 0].T[1:]
        chosen = select((values[None], ids[None]), projected[None], np.array([anchor]), weights=self.drafter.weights)
        return np.asarray(chosen[0], np.int64)


def deviation(found: npt.NDArray[Any], expected: F32) -> float:
    """Return max|found - expected| / max|expected|, infinite where a value is not finite or the shapes differ."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    largest = float(np.abs(expected).max())
    difference = float(np.abs(found.astype(np.float32) - expected).max())
    return difference / largest if largest else difference
