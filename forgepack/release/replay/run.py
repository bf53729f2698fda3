"""A replay from paths to a measured run: target, traces and drafters opened and held together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.target import Embedding, TargetPaths, read_target
from forgepack.artifacts.trace_features import read_checked_traces
from forgepack.artifacts.traces import TraceSet
from forgepack.drafter.comparison import Measured, Variant, compare
from forgepack.drafter.head import Head, open_head
from forgepack.drafter.open import OpenedDrafter, open_drafters
from forgepack.parallel import open_pool
from forgepack.profile import Profile
from forgepack.release.replay.package_weights import open_package
from forgepack.release.replay.report import Run, TargetIdentity, foreign_parts, identify_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Target and traces of a replay; ``foreign`` names the parts that the traces were recorded with another of."""

    profile: Profile
    head: Head
    embedding: Embedding
    target: TargetIdentity
    traces: TraceSet
    workload: str | None
    foreign: tuple[str, ...]

    def run(self, drafters: Sequence[OpenedDrafter], measured: Sequence[Measured]) -> Run:
        """Return what a report is made of."""
        return Run(
            profile=self.profile,
            target=self.target,
            traces=self.traces,
            workload=self.workload,
            drafters=drafters,
            measured=measured,
        )


def read_inputs(paths: TargetPaths, traces: Path, profile: Profile, *, workload: str | None) -> Inputs:
    """Read target and traces; each fault is raised by the part's own reader."""
    target = read_target(paths)
    identity, recorded = identify_target(target), read_checked_traces(traces, profile.geometry)
    assert target.head is not None, "identify_target refuses a target without its export"
    return Inputs(
        profile=profile,
        head=open_head(target.head, profile.geometry),
        embedding=target.embedding,
        target=identity,
        traces=recorded,
        workload=workload,
        foreign=foreign_parts(recorded, identity, profile),
    )


@contextmanager
def open_all(
    paths: Sequence[Path], profile: Profile, *, checkpoint: Path | None, mask_scale: float | None
) -> Iterator[list[OpenedDrafter]]:
    """Open drafters of every kind, the reference first, and set another mask scale where one is asked for."""
    with open_drafters(
        paths, profile, packages=lambda path: open_package(path, profile), checkpoint=checkpoint
    ) as opened:
        yield opened if mask_scale is None else [one.at_mask_scale(mask_scale) for one in opened]


def measure(
    inputs: Inputs, drafters: Sequence[OpenedDrafter], *, threads: int, note: Callable[[str], None] | None = None
) -> list[Measured]:
    """Replay all drafters over the traces; ``note`` gets the path of each that begins."""
    variants = [Variant(name=str(d.path), drafter=d.drafter(inputs.head, inputs.embedding)) for d in drafters]
    with open_pool(threads) as pool:
        return compare(variants, inputs.traces, pool=pool, note=note)
