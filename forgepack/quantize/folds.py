"""Values that the package's folds would take out of float16's normal range: reported when quantizing.

The folds are powers of two (the release contract, section 4), so they are exact but where a value becomes
subnormal or overflows: o_proj scales under 9.8e-4, down_proj scales under 2.5e-4, folded codes under 6.1e-5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forgepack.profile import Recipe

F16 = npt.NDArray[np.float16]

_GATE_FACTOR = 0.5  # SiLU's z/2 is folded into the gate's scale
_TINY = float(np.finfo(np.float16).tiny)
_LARGE = float(np.finfo(np.float16).max)


def lut_factor(name: str, recipe: Recipe) -> float:
    """Return the factor on a LUT4 matrix's codes in the package."""
    return recipe.lut_fold_down if name.endswith("down_proj.weight") else recipe.lut_fold_default


def scale_factor(name: str, recipe: Recipe) -> float:
    """Return the factor on a LUT4 matrix's row scales in the package."""
    factor = 1 / lut_factor(name, recipe)
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        factor /= recipe.resid_scale
    return factor * _GATE_FACTOR if name.endswith("gate_proj.weight") else factor


def count_out_of_range(values: F16, factor: float) -> dict[str, int]:
    """Return how many values·factor are subnormal or overflow in float16; zeros stay zeros and do not count."""
    folded = np.abs(values.astype(np.float64)) * factor
    return {
        "subnormal": int(np.count_nonzero((folded > 0) & (folded < _TINY))),
        "overflow": int(np.count_nonzero(folded > _LARGE)),
    }


def fold_report(name: str, lut: F16, scale: F16, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Return the counts for a LUT4 matrix's codes and scales."""
    return {
        "lut": count_out_of_range(lut, lut_factor(name, recipe)),
        "scale": count_out_of_range(scale, scale_factor(name, recipe)),
    }
