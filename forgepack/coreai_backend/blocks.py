"""Building blocks that the drafter and the target's head share: RMS norm and palettized linear layer."""

from __future__ import annotations

from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.ops import Ops

NORM_FLOOR = 1e-3


def rms_norm(ops: Ops, x: Tensor, gain: Tensor, *, axis: int, eps_root: float) -> Tensor:
    """Return ``x / sqrt(mean(x²) + eps) · gain`` along ``axis``, safe in float16.

    With m = max|x| clamped at 1e-3 and r = eps_root/m it equals ``(x/m) / sqrt(mean((x/m)²) + r·r) · gain``, so
    no square overflows. ``eps_root`` is sqrt(eps) times the factor by which ``x`` is scaled (1/256 on the carried
    residual, the feature scale in the hidden norm): eps itself, or eps/65536, is not a float16 number.
    """
    peak = ops.maximum(ops.reduce_max(ops.abs(x), axis), ops.scalar(NORM_FLOOR))
    unit = ops.divide(x, peak)
    root = ops.divide(ops.scalar(eps_root), peak)
    mean = ops.add(ops.reduce_mean(ops.mul(unit, unit), axis), ops.mul(root, root))
    return ops.mul(ops.mul(unit, ops.rsqrt(mean)), gain)


def lut_linear(ops: Ops, name: str, x: Tensor) -> Tensor:
    """Return ``scale · (lut[idx] @ x)`` from the constants ``<name>.idx``, ``<name>.lut``, ``<name>.scale``.

    x is (1,Cin,1,N); the multiply by the (1,Cout,1,1) scale follows the convolution, as in the target's packages.
    """
    kernel = ops.lut_kernel(ops.named(f"{name}.idx"), ops.named(f"{name}.lut"))
    return ops.mul(ops.pointwise(x, kernel), ops.named(f"{name}.scale"))
