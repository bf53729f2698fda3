"""The drafter's functions of one array each: norms, rotary positions, dynamic convolution, SiLU.

Source of all formulas: the release contract, section 2. Arrays are float32; H is the hidden size, B the block.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


def rms_norm(x: F32, gain: F32, eps: float) -> F32:
    """Return x / sqrt(mean(x²) + eps) · gain over the last axis: a plain gain, not 1 + w."""
    mean = np.mean(np.square(x), axis=-1, keepdims=True)
    out: F32 = x / np.sqrt(mean + np.float32(eps))
    out *= gain
    return out


def rope_tables(positions: npt.NDArray[np.integer], head_dim: int, theta: float) -> tuple[F32, F32]:
    """Return cos and sin, each (*positions.shape, head_dim), both halves alike (NeoX half split).

    Angles are formed in float64: at position 100,000 a float32 angle is wrong in the third digit.
    """
    inverse = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angles = np.asarray(positions, np.float64)[..., None] * inverse
    angles = np.concatenate([angles, angles], axis=-1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotate(x: F32, cos: F32, sin: F32) -> F32:
    """Return x·cos + [-x₂ | x₁]·sin over the last axis; ``cos`` and ``sin`` broadcast against ``x``."""
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    turned *= sin
    turned += x * cos
    return turned


def group_conv(u: F32, dynamic: F32, base: F32) -> F32:
    """Return Σₖ (baseₖ + dₖ)·u[t-k] inside blocks of rows; u is 0 before a block's start.

    ``u`` is (n, B, H); ``dynamic`` (n, B, K, groups) holds each tap's coefficients of each channel group;
    ``base`` is (K, H).
    """
    count, block, hidden = u.shape
    groups = dynamic.shape[-1]
    wide = u.reshape(count, block, groups, hidden // groups)
    bases = base.reshape(-1, groups, hidden // groups)
    out: F32 = (dynamic[:, :, 0, :, None] + bases[0]) * wide
    for tap in range(1, len(bases)):
        out[:, tap:] += (dynamic[:, tap:, tap, :, None] + bases[tap]) * wide[:, :-tap]
    return out.reshape(u.shape)


def silu(z: F32) -> F32:
    """Return z·sigmoid(z) as z/2·(1 + tanh(z/2)): the package's form, and no overflow."""
    half = z * np.float32(0.5)
    out: F32 = np.tanh(half)
    out += 1
    out *= half
    return out
