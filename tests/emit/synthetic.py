"""A synthetic quantized drafter, checkpoint and target of any geometry: deterministic, well scaled, no training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from forgepack.geometry import (
    Geometry,
    checkpoint_tensors,
    int8_matrices,
    lut_matrices,
    parse_geometry,
    quant_tensors,
)
from forgepack.profile import Recipe
from tests.rounded import round_plainly

Array = npt.NDArray[Any]

MINI: dict[str, Any] = {
    "hidden": 128,
    "vocab": 320,
    "layers": 3,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "intermediate": 384,
    "taps": [1, 3, 5, 8, 10],
    "target_layers": 12,
    "window": 64,
    "block": 8,
    "context_rows": 8,
    "prefill_rows": 64,
    "selector_rank": 16,
    "selector_top_k": 8,
    "conv_group": 8,
    "conv_kernel": 2,
    "mask_token": 258,
    "rope_theta": 10000.0,
    "rms_eps": 1e-6,
    "head_parts": 8,
}
# Every dimension another number, a vocabulary that the parts do not divide, more heads than groups.
ODD: dict[str, Any] = {
    **MINI,
    "hidden": 48,
    "vocab": 101,
    "layers": 2,
    "heads": 6,
    "kv_heads": 3,
    "head_dim": 16,
    "intermediate": 80,
    "taps": [0, 2, 7],
    "target_layers": 8,
    "window": 24,
    "block": 5,
    "context_rows": 6,
    "prefill_rows": 20,
    "selector_rank": 12,
    "conv_group": 4,
    "mask_token": 99,
    "head_parts": 4,
}
RECIPE = Recipe(
    variant="lut4_gptq",
    mask_scale=0.7,
    damping=0.01,
    gptq_block=128,
    lloyd_iterations=40,
    lloyd_samples=65536,
    resid_scale=256.0,
    lut_fold_down=0.015625,
    lut_fold_default=0.0625,
    feat_scale=0.125,
)
LUT = np.array(
    [-1.2, -0.9, -0.7, -0.55, -0.41, -0.28, -0.17, -0.05, 0.06, 0.18, 0.28, 0.41, 0.55, 0.7, 0.9, 1.2], np.float16
)


def geometry(values: dict[str, Any] | None = None) -> Geometry:
    return parse_geometry(values or MINI)


def rng(name: str, seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}.{name}".encode()).digest()[:8], "little"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """All sources of a package by name, as the constant table asks for them."""

    geometry: Geometry
    arrays: dict[str, Array]

    def __call__(self, name: str) -> Array:
        return self.arrays[name]

    def group(self, prefix: str) -> dict[str, Array]:
        """Return the arrays of one source, names without the prefix."""
        return {n.removeprefix(f"{prefix}:"): a for n, a in self.arrays.items() if n.startswith(f"{prefix}:")}


def make_weights(values: dict[str, Any] | None = None, *, seed: int = 0, mask_scale: float = 0.7) -> Weights:
    g = geometry(values)
    arrays: dict[str, Array] = {}
    for name, shape in checkpoint_tensors(g).items():
        arrays[f"checkpoint:{name}"] = _checkpoint(g, name, shape, seed)
    rounded = round_plainly(g, lambda name: arrays[f"checkpoint:{name}"])
    arrays |= {f"quant:{name}": rounded[name] for name in quant_tensors(g)}
    r = rng("head", seed)
    arrays["head:lm_head.idx"] = r.integers(0, 16, (g.vocab, g.hidden)).astype(np.uint8)
    arrays["head:lm_head.lut"] = (LUT * np.float16(0.9)).reshape(16, 1)
    arrays["head:lm_head.scale"] = (r.uniform(0.5, 1.5, g.vocab) / np.sqrt(g.hidden)).astype(np.float16)
    arrays["target:embedding[mask]"] = (rng("mask", seed).standard_normal(g.hidden) * 0.9).astype(np.float16)
    arrays["recipe:mask_scale"] = np.array(mask_scale)
    return Weights(geometry=g, arrays=arrays)


def _checkpoint(g: Geometry, name: str, shape: tuple[int, ...], seed: int) -> Array:
    r = rng(name, seed)
    if "norm" in name:
        values = r.uniform(0.8, 1.2, shape)
    elif "base_kernel" in name:
        values = r.standard_normal(shape) * 0.2 + np.array([1.0, 0.0])[None, :, None]
    else:
        values = r.standard_normal(shape) / np.sqrt(shape[-1])
        if name in {**lut_matrices(g), **int8_matrices(g)}:
            values *= r.uniform(0.5, 1.5, (shape[0], 1)) * _gain(g, name)
    narrow: Array = np.asarray(values, np.float32).astype(ml_dtypes.bfloat16)
    return narrow


def _gain(g: Geometry, name: str) -> float:
    """Return a matrix's gain: larger random weights amplify float16's rounding more than trained ones do.

    Outputs into the residual are as large as a trained drafter's: it is carried /256, so small ones lose bits.
    """
    if name in int8_matrices(g):
        return 0.1
    return 4.8 if "o_proj" in name or "down_proj" in name else 0.6


def draft_inputs(g: Geometry, *, seed: int = 7, start: int = 100) -> dict[str, Array]:
    """Return inputs of ``draft`` as the host would give them: features already scaled by 1/8."""
    r = np.random.default_rng(seed)
    inputs = {"feat": (r.standard_normal((1, g.features, 1, g.context_rows)) * 20 * 0.125).astype(np.float16)}
    inputs["ctx_cos"], inputs["ctx_sin"] = rotation(g, np.arange(start, start + g.context_rows))
    inputs["anchor"] = (r.standard_normal((1, g.hidden, 1, 1)) * 0.9).astype(np.float16)
    first = start + g.context_rows
    inputs["q_cos"], inputs["q_sin"] = rotation(g, np.arange(first, first + g.block))
    mask = np.zeros((g.block, g.window + g.context_rows + g.block), np.float16)
    mask[:, : g.window // 4] = -1e4
    mask[:, g.window + g.context_rows - 1] = -1e4
    inputs["mask"] = mask
    for layer in range(g.layers):
        for kind in "kv":
            inputs[f"{kind}c{layer}"] = r.standard_normal((g.kv_heads, g.window, g.head_dim)).astype(np.float16)
    return inputs


def prefill_inputs(g: Geometry, *, seed: int = 8, start: int = 500) -> dict[str, Array]:
    """Return inputs of the prefill entry point."""
    r = np.random.default_rng(seed)
    cos, sin = rotation(g, np.arange(start, start + g.prefill_rows))
    feat = (r.standard_normal((1, g.features, 1, g.prefill_rows)) * 20 * 0.125).astype(np.float16)
    return {"feat": feat, "ctx_cos": cos, "ctx_sin": sin}


def rotation(g: Geometry, positions: Array) -> tuple[Array, Array]:
    half = 1.0 / g.rope_theta ** (np.arange(0, g.head_dim, 2) / g.head_dim)
    angles = np.concatenate([positions[:, None] * half] * 2, axis=-1)
    return np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
