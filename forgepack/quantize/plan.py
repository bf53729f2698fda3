"""What a quantization will do: matrices, rows, memory and disk, known before it begins."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.geometry import Geometry, Shape, int8_matrices, lut_matrices, quant_tensors
from forgepack.profile import Profile
from forgepack.quantize.fit import BINS
from forgepack.quantize.gptq import OUTER
from forgepack.quantize.hessian import PANEL
from forgepack.quantize.sources import Sources, split_sequences

_BASE = 200 << 20  # interpreter, libraries and small buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Rows that calibrate and are held out, peak memory and disk in bytes; ``disk_free`` where the output goes."""

    lut4: dict[str, Shape]
    int8: dict[str, Shape]
    context_rows: int
    block_rows: int
    held_out_context_rows: int
    held_out_block_rows: int
    memory: int
    disk: int
    disk_free: int


def plan(sources: Sources, out: Path, profile: Profile) -> Plan:
    """Count what ``quantize`` would do with these inputs; nothing is written."""
    g, split = profile.geometry, split_sequences(sources)
    held = sources.held_out or sources.traces
    chosen = [sources.traces.sequences[n] for n in split.calibration]
    kept = [held.sequences[n] for n in split.held_out]
    contexts = [sum(s.context_rows for s in part) for part in (chosen, kept)]
    blocks = [sum(int(s.positions.size) for s in part) * g.block for part in (chosen, kept)]
    payload = sum(math.prod(shape) * DTYPES[dtype].itemsize for dtype, shape in quant_tensors(g).values())
    return Plan(
        lut4=lut_matrices(g),
        int8=int8_matrices(g),
        context_rows=contexts[0],
        block_rows=blocks[0],
        held_out_context_rows=contexts[1],
        held_out_block_rows=blocks[1],
        memory=peak_memory(g, context_rows=sum(contexts), block_rows=sum(blocks)),
        disk=2 * payload,
        disk_free=shutil.disk_usage(out.parent).free,
    )


def peak_memory(g: Geometry, *, context_rows: int, block_rows: int) -> int:
    """Return an upper estimate of resident bytes: the largest of fc, gate and up, and down_proj.

    Each holds one Hessian (8 bytes a value), a matrix three times in float32, and the activations then alive.
    """
    activations = 4 * block_rows * g.hidden
    # The context's own sum, and the held-out rows' where they are more than half the columns.
    context = 4 * context_rows * g.hidden + 16 * g.hidden**2
    fc = _matrix(g.hidden, g.features) + 3 * 4 * PANEL * g.features
    gate = _matrix(g.intermediate, g.hidden) + 3 * activations + context
    product = 4 * block_rows * g.intermediate
    gating = 2 * 4 * g.intermediate * g.hidden + product + 3 * activations + context
    down = _matrix(g.hidden, g.intermediate) + product + 2 * activations + context
    return _BASE + max(fc, gate, gating, down)


def _matrix(rows: int, columns: int) -> int:
    return 8 * columns**2 + 3 * 4 * rows * columns + 3 * 4 * OUTER * columns + 16 * BINS * rows
