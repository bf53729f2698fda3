"""Floating-point operations that a quantization must do, by phase: the tool's own counts, step by step, summed up."""

from __future__ import annotations

from collections import defaultdict

from forgepack.geometry import Geometry
from forgepack.quantize.steps import Rows, make_steps


def count_operations(g: Geometry, rows: Rows) -> dict[str, float]:
    """Return operations by phase: hessians, forward, factorization, gptq and the three kinds of errors."""
    counts: defaultdict[str, float] = defaultdict(float)
    for step in make_steps(g, rows):
        for phase, count in step.operations.items():
            counts[phase] += count
    return dict(counts)
