"""The steps of a quantization in their order, each with its operations and memory: known before it begins.

A step is what shares input rows: LUT4 matrices of one Hessian, or one INT8 matrix. A multiply and an add are two
operations. What symmetry saves is not counted: a Hessian is half a product, a factorization n³/3, a quadratic form
and GPTQ's triangular sums half of rows x n² multiply-adds. Only work that no order of the computation avoids is in
here: one forward pass over calibration and held-out rows, which has the outputs of the unquantized matrices; one
Hessian for each step and one factorization of it; one GPTQ pass, whose loss is its calibration error; plain
rounding's error on calibration rows; and the held-out errors of both, through the held-out rows' own sum where that
is less than their products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from forgepack.artifacts.traces import TraceSequence
from forgepack.geometry import Geometry, Shape, int8_matrices, lut_matrices
from forgepack.quantize.fit import BINS
from forgepack.quantize.gptq import OUTER
from forgepack.quantize.hessian import PANEL

FORWARD = "forward"
_BASE = 200 << 20  # interpreter, libraries and small buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows that are walked: context rows and block rows, calibration and held-out apart."""

    context: int
    block: int
    held_out_context: int
    held_out_block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Matrices that are quantized together, in order, with their shapes.

    ``rows`` and ``held_out_rows`` feed them; ``operations`` are counted by phase, ``memory`` is an upper estimate of
    resident bytes while the step runs.
    """

    matrices: Mapping[str, Shape]
    form: str
    rows: int
    held_out_rows: int
    operations: Mapping[str, float]
    memory: int

    @property
    def total(self) -> float:
        """Operations of all phases."""
        return sum(self.operations.values())


def count_rows(calibration: Iterable[TraceSequence], held_out: Iterable[TraceSequence], g: Geometry) -> Rows:
    """Count the rows that the recorded schedules walk."""
    (context, block), (other_context, other_block) = (
        (sum(fed_count(s, g) for s in part), g.block * sum(int(s.positions.size) for s in part))
        for part in (list(calibration), list(held_out))
    )
    return Rows(context=context, block=block, held_out_context=other_context, held_out_block=other_block)


def fed_count(sequence: TraceSequence, g: Geometry) -> int:
    """Return how many context rows of a sequence feed a Hessian."""
    fed = sequence.fed_rows(g.window)
    return int(fed.stop - fed.start)


def make_steps(g: Geometry, rows: Rows, *, gptq: bool = True) -> tuple[Step, ...]:
    """Return all steps in the order in which matrices are finished; without ``gptq`` nothing is factorized."""
    luts, int8s = lut_matrices(g), int8_matrices(g)
    out = []
    for names in _order(g):
        shapes = {name: (luts | int8s)[name] for name in names}
        rounded = names[0] in int8s
        fed, judged = _rows(names[0], rows)
        counts = {FORWARD: 2.0 * _products(shapes) * (fed + judged)}
        if rounded:
            counts["int8_errors"] = counts[FORWARD]
        else:
            counts |= _lut4_operations(names[0], shapes, rows, gptq=gptq)
        out.append(
            Step(
                matrices=shapes,
                form="int8" if rounded else "lut4",
                rows=fed,
                held_out_rows=judged,
                operations=counts,
                memory=_memory(g, names[0], shapes, rows),
            )
        )
    return tuple(out)


def _order(g: Geometry) -> Iterator[tuple[str, ...]]:
    """Yield the names of each step's matrices."""
    yield ("fc.weight",)
    for layer in range(g.layers):
        name = f"layers.{layer}."
        q, k, v, o = (f"{name}self_attn.{part}_proj.weight" for part in "qkvo")
        gate, up, down = (f"{name}mlp.{part}_proj.weight" for part in ("gate", "up", "down"))
        yield from ((f"{name}attention_conv.kernel_projection.weight",), (k, v), (q,), (o,))
        yield from ((f"{name}mlp_conv.kernel_projection.weight",), (gate, up), (down,))


def _rows(name: str, rows: Rows) -> tuple[int, int]:
    """Return the calibration and the held-out rows that feed a matrix (the release contract, section 3)."""
    if name == "fc.weight":
        return rows.context, rows.held_out_context
    if name.endswith("k_proj.weight"):
        return rows.block + rows.context, rows.held_out_block + rows.held_out_context
    return rows.block, rows.held_out_block


def _products(shapes: Mapping[str, Shape]) -> int:
    return sum(m * n for m, n in shapes.values())


def _lut4_operations(first: str, shapes: Mapping[str, Shape], rows: Rows, *, gptq: bool) -> dict[str, float]:
    n, products = shapes[first][1], _products(shapes)
    judged = _rows(first, rows)[1]
    summed = n < 2 * judged
    each = products * (n if summed else 2 * judged)
    counts: dict[str, float] = {
        "hessians": _summed_rows(first, rows) * n**2,
        "calibration_errors": products * n,
        "held_out": (2 if gptq else 1) * each + (judged * n**2 if summed else 0),
    }
    if gptq:
        counts |= {"factorization": n**3 / 3, "gptq": products * n}
    return {phase: float(count) for phase, count in counts.items()}


def _summed_rows(first: str, rows: Rows) -> int:
    """Return the rows that a step sums up: q's sum is part of k's, the context's the same for all layers."""
    if first.endswith("q_proj.weight"):
        return 0
    if first.endswith("k_proj.weight"):
        return rows.block + (rows.context if first.startswith("layers.0.") else 0)
    return _rows(first, rows)[0]


def _memory(g: Geometry, first: str, shapes: Mapping[str, Shape], rows: Rows) -> int:
    """Return an upper estimate of resident bytes: the Hessian, the largest matrix, and the activations then alive."""
    blocks, contexts = rows.block + rows.held_out_block, rows.context + rows.held_out_context
    activations = 4 * blocks * g.hidden
    # The fused context and its own sum, and the held-out rows' sum where they are more than half the columns.
    context = 4 * contexts * g.hidden + 16 * g.hidden**2
    m, n = max(shapes.values())
    if "kernel_projection" in first:
        return _BASE + 4 * 4 * m * n + 3 * activations + context
    matrix = 8 * n**2 + 3 * 4 * m * n + 3 * 4 * OUTER * n + 16 * BINS * m
    if first == "fc.weight":
        return _BASE + matrix + 3 * 4 * PANEL * n
    product = 4 * blocks * g.intermediate
    if first.endswith("down_proj.weight"):
        return _BASE + matrix + product + 2 * activations + context
    if first.endswith("gate_proj.weight"):
        gating = 2 * 4 * m * n + product
        return _BASE + max(matrix, gating) + 3 * activations + context
    joined = 8 * n**2 if first.endswith("k_proj.weight") else 0
    return _BASE + matrix + joined + 3 * activations + context
