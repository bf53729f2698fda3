"""Head packages with the right constants: some compute the head, others something else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.blocks import lut_linear, rms_norm
from forgepack.coreai_backend.builder import Function, build_program
from forgepack.coreai_backend.ops import Ops
from forgepack.coreai_backend.target_assets import HeadWeights, head_constants
from forgepack.geometry import Geometry

ROWS, PARTS = 8, 4
Body = Callable[["HeadGraph"], Any]


class HeadGraph:
    """The parts of a head's graph over its input x (1,hidden,1,8)."""

    def __init__(self, ops: Ops, x: Any, vocab: int, hidden: int) -> None:
        self.ops, self.x, self.vocab, self.hidden = ops, x, vocab, hidden
        self.parts = range(PARTS)

    def normed(self, eps: float = 1e-3) -> Any:
        """Return x after the final norm, as our own packages write it."""
        return rms_norm(self.ops, self.x, self.ops.named("norm"), axis=1, eps_root=eps)

    def plain(self) -> Any:
        """Return x after the final norm without a guard against overflow: x / sqrt(mean(x^2) + eps) * gain."""
        square = self.ops.reduce_mean(self.ops.mul(self.x, self.x), 1)
        root = self.ops.rsqrt(self.ops.add(square, self.ops.scalar(1e-6)))
        return self.ops.mul(self.ops.mul(self.x, root), self.ops.named("norm"))

    def moved(self, x: Any) -> Any:
        """Return x, its axes exchanged and exchanged back: no rewrite takes two products for one over this."""
        return self.ops.transpose(self.ops.transpose(x, (0, 3, 2, 1)), (0, 3, 2, 1))

    def products(self, x: Any) -> list[Any]:
        """Return each part's rows times x, in row order."""
        return [lut_linear(self.ops, f"head.{part}", x) for part in self.parts]

    def logits(self, parts: list[Any]) -> Any:
        """Return (8, vocab) of parts side by side."""
        return self.ops.transpose(self.ops.reshape(self.ops.concat(parts, 1), (self.vocab, ROWS)), (1, 0))


def _rows_exchanged(g: HeadGraph) -> Any:
    one = g.ops.slice(g.normed(), (0, 0, 0, 0), (1, g.hidden, 1, 1))
    rest = g.ops.slice(g.normed(), (0, 0, 0, 1), (1, g.hidden, 1, ROWS))
    return g.logits(g.products(g.ops.concat([rest, one], 3)))


def _channels_reversed(g: HeadGraph) -> Any:
    half = g.hidden // 2
    one = g.ops.slice(g.normed(), (0, 0, 0, 0), (1, half, 1, ROWS))
    other = g.ops.slice(g.normed(), (0, half, 0, 0), (1, g.hidden, 1, ROWS))
    return g.logits(g.products(g.ops.concat([other, one], 1)))


def _scrambled(g: HeadGraph) -> Any:
    return g.ops.reshape(g.ops.concat(g.products(g.normed()), 1), (ROWS, g.vocab))


def _rows_of_logits_reversed(g: HeadGraph) -> Any:
    logits = g.logits(g.products(g.normed()))
    rows = [g.ops.slice(logits, (row, 0), (row + 1, g.vocab)) for row in reversed(range(ROWS))]
    return g.ops.concat(rows, 0)


def _mean_over_rows(g: HeadGraph) -> Any:
    square = g.ops.reduce_mean(g.ops.mul(g.x, g.x), 3)
    normed = g.ops.mul(g.ops.mul(g.x, g.ops.rsqrt(square)), g.ops.named("norm"))
    return g.logits(g.products(normed))


def _other_scales(g: HeadGraph) -> Any:
    """Turn each part's rows before its scale is applied, and back afterwards."""
    ops, x, out = g.ops, g.normed(), []
    rows = g.vocab // PARTS

    def turned(value: Any, by: int) -> Any:
        one = ops.slice(value, (0, 0, 0, 0), (1, by, 1, ROWS))
        return ops.concat([ops.slice(value, (0, by, 0, 0), (1, rows, 1, ROWS)), one], 1)

    for part in g.parts:
        kernel = ops.lut_kernel(ops.named(f"head.{part}.idx"), ops.named(f"head.{part}.lut"))
        scaled = ops.mul(turned(ops.pointwise(x, kernel), 1), ops.named(f"head.{part}.scale"))
        out.append(turned(scaled, rows - 1))
    return g.logits(out)


def _half_normed(g: HeadGraph) -> Any:
    peak = g.ops.reduce_max(g.ops.abs(g.x), 1)
    return g.logits(g.products(g.ops.mul(g.ops.divide(g.x, peak), g.ops.named("norm"))))


WRONG: Mapping[str, Body] = {
    "rows and vocabulary scrambled": _scrambled,
    "no final norm": lambda g: g.logits(g.products(g.x)),
    "neither norm nor order": lambda g: g.ops.reshape(g.ops.concat(g.products(g.x), 1), (ROWS, g.vocab)),
    "the norm twice": lambda g: g.logits(
        g.products(rms_norm(g.ops, g.normed(), g.ops.named("norm"), axis=1, eps_root=1e-3))
    ),
    "x added to the norm": lambda g: g.logits(g.products(g.ops.add(g.normed(), g.x))),
    "divided by the largest alone": _half_normed,
    "the mean over rows": _mean_over_rows,
    "another eps": lambda g: g.logits(g.products(g.normed(eps=0.5))),
    "rows of x turned": _rows_exchanged,
    "channels of x turned": _channels_reversed,
    "logits in reversed rows": _rows_of_logits_reversed,
    "scales of other rows": _other_scales,
}
RIGHT: Mapping[str, Body] = {
    "our own": lambda g: g.logits(g.products(g.normed())),
    "a plain norm": lambda g: g.logits(g.products(g.plain())),
    "parts transposed one by one": lambda g: g.ops.concat(
        [g.ops.transpose(g.ops.reshape(part, (g.vocab // PARTS, ROWS)), (1, 0)) for part in g.products(g.normed())],
        1,
    ),
    "moved and moved back": lambda g: g.logits(g.products(g.moved(g.normed()))),
}


def overflowing(g: HeadGraph) -> Any:
    """Return the right formula, over sixty times x: its square is beyond float16."""
    large = g.ops.mul(g.x, g.ops.scalar(60.0))
    root = g.ops.rsqrt(g.ops.reduce_mean(g.ops.mul(large, large), 1))
    return g.logits(g.products(g.ops.mul(g.ops.mul(large, root), g.ops.named("norm"))))


def write_wired_head(folder: Path, head_file: Path, g: Geometry, body: Body, *, name: str = "h8") -> None:
    """Write a head package over an export's head, its graph made by ``body``."""
    source = read_safetensors(head_file)
    head = HeadWeights(
        idx=np.array(source.array("lm_head.idx")),
        lut=np.array(source.array("lm_head.lut")).reshape(-1),
        scale=np.array(source.array("lm_head.scale")),
        gain=np.ones(g.hidden, np.float32),
        eps=1e-6,
    )
    function = Function(
        name=name,
        inputs=(("x", (1, g.hidden, 1, ROWS)),),
        outputs=(("logits", (ROWS, g.vocab)),),
        body=lambda ops, inputs: {"logits": body(HeadGraph(ops, inputs["x"], g.vocab, g.hidden))},
    )
    program = build_program([function], head_constants(head, PARTS).__getitem__)
    shutil.rmtree(folder, ignore_errors=True)
    write_asset(
        program, folder, AssetMetadata(author="tests", licence="Apache-2.0", description="a head of the tests")
    )
