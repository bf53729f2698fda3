"""Quantizing the matrices that share their input rows: errors of plain rounding first, then GPTQ on one factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool
from forgepack.profile import Recipe
from forgepack.quantize.factor import Factor, ascending_order, factorize
from forgepack.quantize.folds import fold_report
from forgepack.quantize.gptq import gptq
from forgepack.quantize.hessian import permute, quadratic, squared_outputs
from forgepack.quantize.int8 import dequantize_int8, quantize_int8
from forgepack.quantize.lut import Lut4, fit_lut4
from forgepack.quantize.result import MatrixResult

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Panels = Callable[[], Iterable[F32]]

KINDS = ("calibration", "held_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The rows that feed a group of matrices: H over ``rows`` calibration rows, and held-out rows by panels.

    ``hessian`` is mirrored and already divided by ``rows``; it is destroyed.
    """

    hessian: F64
    rows: int
    held_out: Panels
    held_out_rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Draft:
    """A matrix after plain rounding: squared outputs of W and of W - Q, for calibration and held-out rows."""

    lut: Lut4
    outputs: tuple[float, float]
    rtn: tuple[float, float]
    indices: npt.NDArray[np.uint8] | None = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixQuantizer:
    """Quantizes groups of matrices by one recipe; ``load`` returns a matrix (rows, columns) by its name."""

    load: Callable[[str], F32]
    recipe: Recipe
    use_gptq: bool
    pool: Pool

    def lut4(self, names: tuple[str, ...], inputs: Inputs) -> Iterable[MatrixResult]:
        """Yield the LUT4 results of matrices that share ``inputs``, one factorization for all of them."""
        drafts = {name: self._round(name, inputs) for name in names}
        dead = int(np.count_nonzero(np.diagonal(inputs.hessian) <= 0))
        if not self.use_gptq:
            for name, draft in drafts.items():
                assert draft.indices is not None
                yield self._result(name, draft, draft.indices, draft.rtn, self._facts(inputs, dead))
            return
        order = ascending_order(inputs.hessian)
        permute(inputs.hessian, order)
        where = ", ".join(names)
        factor = factorize(inputs.hessian, damping=self.recipe.damping, pool=self.pool, where=where)
        for name, draft in drafts.items():
            indices, errors = self._gptq(name, draft, factor, order, inputs)
            facts = self._facts(inputs, dead) | {"damping": factor.damping}
            yield self._result(name, draft, indices, errors, facts)

    def int8(self, name: str, calibration: Panels, held_out: Panels) -> MatrixResult:
        """Return the INT8 result of a matrix, rounded plainly, with its errors on both kinds of rows."""
        weight = self.load(name)
        codes, scale = quantize_int8(weight, name)
        difference = weight - dequantize_int8(codes, scale)
        errors = []
        for panels in (calibration, held_out):
            outputs = squared_outputs(weight, panels(), self.pool)
            errors.append(_ratio(squared_outputs(difference, panels(), self.pool), outputs, name))
        both = {kind: {"quantized": e, "rtn": e} for kind, e in zip(KINDS, errors, strict=True)}
        report = {"format": "int8", "shape": list(weight.shape), "error": both}
        return MatrixResult(name=name, tensors={"int8": codes, "scale": scale}, report=report)

    def _round(self, name: str, inputs: Inputs) -> _Draft:
        weight, recipe = self.load(name), self.recipe
        lut = fit_lut4(weight, iterations=recipe.lloyd_iterations, samples=recipe.lloyd_samples, where=name)
        squares = np.square(lut.scale.astype(np.float64))
        normalised = lut.normalise(weight)
        outputs = float(squares @ quadratic(normalised, inputs.hessian, self.pool))
        indices = lut.round(normalised, self.pool)
        rounded = float(squares @ quadratic(normalised, inputs.hessian, self.pool))
        normalised *= lut.scale.astype(np.float32)[:, None]
        return _Draft(
            lut=lut,
            outputs=(outputs, squared_outputs(weight, inputs.held_out(), self.pool)),
            rtn=(rounded, squared_outputs(normalised, inputs.held_out(), self.pool)),
            indices=None if self.use_gptq else indices,
        )

    def _gptq(
        self, name: str, draft: _Draft, factor: Factor, order: I64, inputs: Inputs
    ) -> tuple[npt.NDArray[np.uint8], tuple[float, float]]:
        """Return GPTQ's indices and its squared errors on calibration and held-out rows.

        The calibration error is GPTQ's own loss without what ridge and dead columns add to it.
        """
        lut = draft.lut
        difference = np.ascontiguousarray(lut.normalise(self.load(name))[:, order])
        rounded = gptq(difference, factor, lut, block=self.recipe.gptq_block, pool=self.pool)
        squares = np.square(lut.scale.astype(np.float64))
        added = np.where(factor.dead, 1.0, factor.ridge)
        loss = rounded.loss - _weighted_squares(difference, added)
        indices = np.empty_like(rounded.indices)
        indices[:, order] = rounded.indices
        difference[:, order] = difference.copy()
        difference *= lut.scale.astype(np.float32)[:, None]
        held_out = squared_outputs(difference, inputs.held_out(), self.pool)
        return indices, (max(0.0, float(squares @ loss)), held_out)

    def _facts(self, inputs: Inputs, dead: int) -> dict[str, Any]:
        return {"rows": inputs.rows, "held_out_rows": inputs.held_out_rows, "dead_columns": dead, "damping": None}

    def _result(
        self,
        name: str,
        draft: _Draft,
        indices: npt.NDArray[np.uint8],
        errors: tuple[float, float],
        facts: dict[str, Any],
    ) -> MatrixResult:
        lut = draft.lut
        error = {}
        for kind, left, rounded, outputs in zip(KINDS, errors, draft.rtn, draft.outputs, strict=True):
            error[kind] = {"quantized": _ratio(left, outputs, name), "rtn": _ratio(rounded, outputs, name)}
        folds = fold_report(name, lut.codebook, lut.scale, self.recipe)
        report = {"format": "lut4", "shape": list(indices.shape), "error": error, "folds": folds, **facts}
        tensors: dict[str, npt.NDArray[np.generic]] = {
            "lut": lut.codebook.reshape(-1, 1),
            "idx": indices,
            "scale": lut.scale,
        }
        return MatrixResult(name=name, tensors=tensors, report=report)


def _weighted_squares(difference: F32, weights: F64) -> F64:
    """Return Σ_j weights_j·d_j² of each row, a few rows at a time."""
    out = np.empty(len(difference), np.float64)
    for start in range(0, len(difference), 256):
        rows = slice(start, start + 256)
        out[rows] = np.square(difference[rows], dtype=np.float64) @ weights
    return out


def _ratio(part: float, whole: float, name: str) -> float:
    """Return the relative error sqrt(part / whole), 0 where there is no output at all; NumericsError on overflow."""
    if not (np.isfinite(part) and np.isfinite(whole)):
        raise NumericsError("activations or outputs of a matrix overflow", where=name, code="nonfinite")
    return float(np.sqrt(part / whole)) if whole > 0 else 0.0
