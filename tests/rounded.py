"""Quantized matrices for tests that need no calibration: what plain rounding makes of given weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.geometry import Geometry, int8_matrices, lut_matrices
from forgepack.parallel import open_pool
from forgepack.quantize.int8 import quantize_int8
from forgepack.quantize.lut import fit_lut4

Array = npt.NDArray[Any]
# Enough for a codebook that fits; the release takes more of both.
ITERATIONS, SAMPLES = 8, 4096


def round_plainly(geometry: Geometry, weights: Callable[[str], Array]) -> dict[str, Array]:
    """Return every tensor of drafter_quant.safetensors by its name; ``weights`` gives a matrix by its name."""
    out: dict[str, Array] = {}
    with open_pool(1) as pool:
        for name in lut_matrices(geometry):
            weight = np.asarray(weights(name), np.float32)
            lut = fit_lut4(weight, iterations=ITERATIONS, samples=SAMPLES, where=name)
            out[f"{name}.lut"], out[f"{name}.scale"] = lut.codebook.reshape(-1, 1), lut.scale
            out[f"{name}.idx"] = lut.round(lut.normalise(weight), pool)
    for name in int8_matrices(geometry):
        out[f"{name}.int8"], out[f"{name}.scale"] = quantize_int8(np.asarray(weights(name), np.float32), name)
    return out
