"""What a quantization will do: steps, rows, memory and disk, known before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.disk.space import free_bytes
from forgepack.geometry import quant_tensors
from forgepack.profile import Profile
from forgepack.quantize.recipe import Options
from forgepack.quantize.sources import Sources, Split, split_sequences
from forgepack.quantize.steps import Rows, Step, count_rows, make_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in order, the rows that calibrate and are held out, peak memory and disk in bytes.

    ``disk`` is what the run writes before its output stands: every matrix by itself, and all of them joined;
    ``disk_free`` is what there is where the output goes.
    """

    steps: tuple[Step, ...]
    rows: Rows
    memory: int
    disk: int
    disk_free: int


def plan(sources: Sources, out: Path, profile: Profile, options: Options) -> Plan:
    """Count what ``quantize`` would do with these inputs; nothing is written."""
    rows = chosen_rows(sources, split_sequences(sources), profile)
    steps = make_steps(profile.geometry, rows, gptq=options.method == "gptq")
    return Plan(
        steps=steps,
        rows=rows,
        memory=max(step.memory for step in steps),
        disk=disk_bytes(profile),
        disk_free=free_bytes(out.parent),
    )


def disk_bytes(profile: Profile) -> int:
    """Return the bytes that a run writes before its output stands: each matrix by itself, and all of them joined."""
    specs = quant_tensors(profile.geometry).values()
    return 2 * sum(math.prod(shape) * DTYPES[dtype].itemsize for dtype, shape in specs)


def chosen_rows(sources: Sources, split: Split, profile: Profile) -> Rows:
    """Count the rows of the sequences that calibrate and of those that are held out."""
    held = sources.held_out or sources.traces
    calibration = [sources.traces.sequences[n] for n in split.calibration]
    return count_rows(calibration, [held.sequences[n] for n in split.held_out], profile.geometry)
