"""Floating-point operations that a quantization must do, by phase, from geometry and traces alone.

A multiply and an add are two operations. What symmetry saves is not counted: a Hessian is half a product, a
factorization n³/3, a quadratic form and GPTQ's triangular sums half of rows x n² multiply-adds. Only work that no
order of the computation avoids is in here: one forward pass over calibration and held-out rows, which has the outputs
of the unquantized matrices; one Hessian for each group of matrices that share rows, and one factorization of it; one
GPTQ pass, whose loss is its calibration error; plain rounding's error on calibration rows; and the held-out errors of
both, through the held-out rows' own sum where that is less than their products.
"""

from __future__ import annotations

from dataclasses import dataclass

from forgepack.geometry import Geometry, int8_matrices, lut_matrices


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows that are walked: context rows and block rows, calibration and held-out apart."""

    context: int
    block: int
    held_out_context: int
    held_out_block: int


def count_operations(g: Geometry, rows: Rows) -> dict[str, float]:
    """Return operations by phase: hessians, forward, factorization, gptq and the three kinds of errors."""
    luts = lut_matrices(g)
    return {
        "hessians": _hessians(g, rows),
        "forward": _forward(g, rows.context + rows.held_out_context, rows.block + rows.held_out_block),
        "factorization": sum(n**3 / 3 * groups for n, groups in _groups(g).items()),
        "gptq": float(sum(m * n**2 for m, n in luts.values())),
        "calibration_errors": float(sum(m * n**2 for m, n in luts.values())),
        "held_out": _held_out(g, rows),
        "int8_errors": 2.0 * sum(m * n for m, n in int8_matrices(g).values()) * (rows.block + rows.held_out_block),
    }


def _groups(g: Geometry) -> dict[int, int]:
    """Return how many Hessians of each width there are: q apart from k and v, gate and up together."""
    widths: dict[int, int] = {}
    per_layer = (g.hidden, g.hidden, g.query_width, g.hidden, g.intermediate)
    for width in (g.features, *per_layer * g.layers):
        widths[width] = widths.get(width, 0) + 1
    return widths


def _hessians(g: Geometry, rows: Rows) -> float:
    """Count half products; the fused context's sum is the same for every layer, and q's is part of k's."""
    context = rows.context * (g.features**2 + g.hidden**2)
    block = rows.block * (2 * g.hidden**2 + g.query_width**2 + g.intermediate**2) * g.layers
    return float(context + block)


def _forward(g: Geometry, context: int, block: int) -> float:
    """Count products with matrices, the last one too: its outputs' sum is part of its relative error."""
    sizes = {name: m * n for name, (m, n) in {**lut_matrices(g), **int8_matrices(g)}.items()}
    fc = sizes.pop("fc.weight")
    per_block = sum(sizes.values())
    per_context = fc + g.layers * 2 * g.kv_width * g.hidden
    return 2.0 * (context * per_context + block * per_block)


def _held_out(g: Geometry, rows: Rows) -> float:
    """Count two errors, of plain rounding and of GPTQ, of each matrix, and the sums over held-out rows they take."""
    total = 0
    for name, (m, n) in lut_matrices(g).items():
        fed = rows.held_out_context if name == "fc.weight" else rows.held_out_block
        if "k_proj" in name or "v_proj" in name:
            fed += rows.held_out_context
        summed = n < 2 * fed
        total += 2 * m * n * (n if summed else 2 * fed)
        if summed and not name.endswith(("v_proj.weight", "up_proj.weight")):  # the sum is k's and gate's, too
            total += fed * n**2
    return float(total)
