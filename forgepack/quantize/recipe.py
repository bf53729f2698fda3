"""The recipe: what is fixed by the method, what the profile pins, and what a run may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forgepack.artifacts.quant_report import Method
from forgepack.errors import UsageError
from forgepack.profile import Profile, Recipe
from forgepack.quantize import fit
from forgepack.quantize.lut import CODES

FORMS = {"gptq": "lut4_gptq", "rtn": "lut4_rtn"}

FITTED: dict[str, Any] = {
    "scale": "root mean square of the row times the factor of least weighted rounding error, float16",
    "silent_rows": "where that root mean square rounds to 0, the smallest float16",
    "factors": {
        "from": -fit.STEPS / fit.OCTAVE,
        "to": fit.STEPS / fit.OCTAVE,
        "step": 1 / fit.OCTAVE,
        "unit": "octave",
    },
    "codebook": "optimal for the weighted histogram, then Lloyd to its fixed point, float16",
    "weights": "squared diagonal of the Cholesky factor, by column",
    "histogram": {"bins": fit.BINS, "per_unit": fit.PER_UNIT},
    "rounds": {"until": "no row changes its factor", "at_most": fit.MAX_ROUNDS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run may choose; None takes the profile's value.

    ``mask_scale`` is used in calibration, ``deployed_mask_scale`` is recorded for deployment (default: the same).
    ``threads`` never changes a result.
    """

    method: Method = "gptq"
    mask_scale: float | None = None
    deployed_mask_scale: float | None = None
    threads: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        """Refuse a method that is not one: it must not be taken for plain rounding."""
        if self.method not in FORMS:
            raise UsageError("no such method of quantization", expected=" or ".join(FORMS), found=str(self.method))


def calibration_scale(options: Options, profile: Profile) -> float:
    """Return the mask scale that calibration uses."""
    return _checked(profile.recipe.mask_scale if options.mask_scale is None else options.mask_scale)


def deployed_scale(options: Options, profile: Profile) -> float:
    """Return the mask scale that is recorded for deployment."""
    chosen = options.deployed_mask_scale
    return calibration_scale(options, profile) if chosen is None else _checked(chosen)


def _checked(scale: float) -> float:
    if not 0 < scale <= 1:
        raise UsageError("the mask scale is out of range", expected="over 0, at most 1", found=str(scale))
    return float(scale)


def recipe_json(options: Options, profile: Profile) -> dict[str, Any]:
    """Return the recipe as report.json records it: everything that a result depends on besides the inputs.

    ``lut4.rtn`` is the plain recipe of the release contract, section 3: what ``--method rtn`` writes, and what a
    report's errors of plain rounding mean. GPTQ has scale and codebook of its own.
    ``activations`` says that a layer is calibrated on the outputs of the ORIGINAL layers before it: the plain
    recipe. A layer's own error then does not hide in the next one's Hessian, and every matrix can be quantized alone.
    """
    recipe = profile.recipe
    gptq = {
        "order": "descending diagonal of the Hessian",
        "damping": recipe.damping,
        "block": recipe.gptq_block,
        "factorization": "float64 Cholesky",
        "hessian": "float32 products of 1024 rows, summed in float64",
        "dead_columns": "diagonal set to 1, left out of the mean diagonal",
    }
    return {
        "variant": recipe.variant if options.method == "gptq" else FORMS["rtn"],
        "mask_scale": {
            "calibration": calibration_scale(options, profile),
            "deployment": deployed_scale(options, profile),
        },
        "activations": "unquantized",
        "lut4": {"codes": CODES, **(FITTED if options.method == "gptq" else {}), "rtn": _plain_fit(recipe)},
        "int8": {"scale": "largest magnitude of the row / 127, float16", "rounding": "nearest, halves to even"},
        "gptq": gptq if options.method == "gptq" else None,
    }


def _plain_fit(recipe: Recipe) -> dict[str, Any]:
    return {
        "scale": "root mean square of the row, float16",
        "codebook": "Lloyd from quantiles, unweighted, float16",
        "iterations": recipe.lloyd_iterations,
        "samples": recipe.lloyd_samples,
        "draw": "golden-ratio sequence over the flat matrix",
    }


def file_metadata(options: Options, profile: Profile, traces_sha256: str) -> dict[str, str]:
    """Return the metadata of drafter_quant.safetensors with Forge's keys; RTN is marked as Forge marks it."""
    if options.method == "rtn":
        return {"quant": "lut4", "method": "rtn"}
    return {"variant": profile.recipe.variant, "traces": f"sha256:{traces_sha256}"}
