"""What a quantization will do: steps, rows, memory and disk, known before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.artifacts.trace_overlap import Overlap
from forgepack.disk.space import free_bytes
from forgepack.geometry import quant_tensors
from forgepack.profile import Profile
from forgepack.quantize.examine import examine
from forgepack.quantize.recipe import Options
from forgepack.quantize.sources import Sources, Split
from forgepack.quantize.steps import Rows, Step, count_rows, make_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in order, the rows that calibrate and are held out, peak memory and disk in bytes.

    ``overlap`` is what held-out sequences share with calibration's, ``ignored`` the (cycles, rows) of the traces that
    nothing uses.
    ``disk`` is what the run writes before its output stands: every matrix by itself, and all of them joined;
    ``disk_free`` is what there is where the output goes.
    """

    steps: tuple[Step, ...]
    rows: Rows
    overlap: Overlap
    ignored: tuple[int, int]
    memory: int
    disk: int
    disk_free: int


def plan(sources: Sources, out: Path, profile: Profile, options: Options) -> Plan:
    """Check the inputs as ``quantize`` does, and count what it would do with them; nothing is written."""
    found = examine(sources, profile)
    rows = chosen_rows(sources, found.split, profile)
    steps = make_steps(profile.geometry, rows, gptq=options.method == "gptq")
    return Plan(
        steps=steps,
        rows=rows,
        overlap=found.overlap,
        ignored=_ignored(sources, found.split),
        memory=max(step.memory for step in steps),
        disk=disk_bytes(profile),
        disk_free=free_bytes(out.parent),
    )


def disk_bytes(profile: Profile) -> int:
    """Return the bytes that a run writes before its output stands: each matrix by itself, and all of them joined."""
    specs = quant_tensors(profile.geometry).values()
    return 2 * sum(math.prod(shape) * DTYPES[dtype].itemsize for dtype, shape in specs)


def _ignored(sources: Sources, split: Split) -> tuple[int, int]:
    held = sources.held_out or sources.traces
    chosen = [sources.traces.sequences[n] for n in split.calibration]
    chosen += [held.sequences[n] for n in split.held_out]
    return sum(s.ignored for s in chosen), sum(s.beyond for s in chosen)


def chosen_rows(sources: Sources, split: Split, profile: Profile) -> Rows:
    """Count the rows of the sequences that calibrate and of those that are held out."""
    held = sources.held_out or sources.traces
    calibration = [sources.traces.sequences[n] for n in split.calibration]
    return count_rows(calibration, [held.sequences[n] for n in split.held_out], profile.geometry)
