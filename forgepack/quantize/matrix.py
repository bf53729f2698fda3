"""Quantizing the matrices that share their input rows: errors of plain rounding first, then GPTQ on one factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool
from forgepack.profile import Recipe
from forgepack.quantize.factor import Factor, ascending_order, factorize
from forgepack.quantize.fit import fit_weighted
from forgepack.quantize.folds import fold_report
from forgepack.quantize.gptq import gptq
from forgepack.quantize.hessian import permute, quadratic, squared_outputs
from forgepack.quantize.int8 import dequantize_int8, quantize_int8
from forgepack.quantize.judge import KINDS, HeldOut, Panels, require_finite
from forgepack.quantize.lut import Lut4, fit_lut4
from forgepack.quantize.result import MatrixResult

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The rows that feed a group of matrices: H over ``rows`` calibration rows, and held-out rows.

    ``hessian`` is mirrored and already divided by ``rows``; it is destroyed.
    """

    hessian: F64
    rows: int
    held_out: HeldOut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rounding:
    """A LUT4 matrix and its squared errors ‖(W-Q)x‖², summed over calibration and over held-out rows."""

    lut: Lut4
    indices: U8
    squares: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixQuantizer:
    """Quantizes groups of matrices by one recipe; ``load`` returns a matrix (rows, columns) by its name."""

    load: Callable[[str], F32]
    recipe: Recipe
    use_gptq: bool
    pool: Pool

    def lut4(self, names: tuple[str, ...], inputs: Inputs) -> Iterable[MatrixResult]:
        """Yield the LUT4 results of matrices that share ``inputs``, one factorization for all of them."""
        facts: dict[str, Any] = {
            "rows": inputs.rows,
            "held_out_rows": inputs.held_out.rows,
            "dead_columns": int(np.count_nonzero(np.diagonal(inputs.hessian) <= 0)),
            "damping": None,
        }
        if not self.use_gptq:
            for name in names:
                plain = self._round(name, inputs)
                yield self._result(name, plain, plain.squares, facts)
            return
        rtn = {name: self._round(name, inputs).squares for name in names}
        order = ascending_order(inputs.hessian)
        permute(inputs.hessian, order)
        where = ", ".join(names)
        factor = factorize(inputs.hessian, damping=self.recipe.damping, pool=self.pool, where=where)
        for name in names:
            rounding = self._gptq(name, factor, order, inputs)
            yield self._result(name, rounding, rtn[name], facts | {"damping": factor.damping})

    def int8(self, name: str, calibration: Panels, held_out: Panels) -> MatrixResult:
        """Return the INT8 result of a matrix, rounded plainly, with its errors on both kinds of rows."""
        weight = self.load(name)
        codes, scale = quantize_int8(weight, name)
        difference = weight - dequantize_int8(codes, scale)
        squares = {}
        for kind, panels in zip(KINDS, (calibration, held_out), strict=True):
            error = squared_outputs(difference, panels(), self.pool)
            require_finite(name, error)
            squares[kind] = {"quantized": error, "rtn": error}
        report = {"format": "int8", "shape": list(weight.shape), "squares": squares}
        return MatrixResult(name=name, tensors={"int8": codes, "scale": scale}, report=report)

    def _round(self, name: str, inputs: Inputs) -> _Rounding:
        """Round plainly, with the plain recipe's scale and codebook; H is still whole."""
        weight, recipe = self.load(name), self.recipe
        lut = fit_lut4(weight, iterations=recipe.lloyd_iterations, samples=recipe.lloyd_samples, where=name)
        scale = lut.scale.astype(np.float32)
        difference = lut.normalise(weight)
        indices = lut.round(difference, self.pool)
        mean = float(np.square(scale, dtype=np.float64) @ quadratic(difference, inputs.hessian, self.pool))
        held_out = inputs.held_out.squares(difference, scale, self.pool)
        return _Rounding(lut=lut, indices=indices, squares=(mean * inputs.rows, held_out))

    def _gptq(self, name: str, factor: Factor, order: I64, inputs: Inputs) -> _Rounding:
        """Round by GPTQ. Its own loss, without what ridge and dead columns add, is the calibration error."""
        weight = self.load(name)
        lut = fit_weighted(weight, _importance(factor, order), where=name, pool=self.pool)
        scale = lut.scale.astype(np.float32)
        difference = np.ascontiguousarray(lut.normalise(weight)[:, order])
        del weight
        rounded = gptq(difference, factor, lut, block=self.recipe.gptq_block, pool=self.pool)
        added = np.where(factor.dead, 1.0, factor.ridge)
        loss = rounded.loss - _weighted_squares(difference, added)
        indices = np.empty_like(rounded.indices)
        indices[:, order] = rounded.indices
        difference[:, order] = difference.copy()
        mean = max(0.0, float(np.square(scale, dtype=np.float64) @ loss))
        held_out = inputs.held_out.squares(difference, scale, self.pool)
        return _Rounding(lut=lut, indices=indices, squares=(mean * inputs.rows, held_out))

    def _result(
        self, name: str, rounding: _Rounding, rtn: tuple[float, float], facts: dict[str, Any]
    ) -> MatrixResult:
        lut, indices = rounding.lut, rounding.indices
        require_finite(name, *rounding.squares, *rtn)
        pairs = zip(KINDS, rounding.squares, rtn, strict=True)
        squares = {kind: {"quantized": quantized, "rtn": plain} for kind, quantized, plain in pairs}
        folds = fold_report(name, lut.codebook, lut.scale, self.recipe)
        report = {"format": "lut4", "shape": list(indices.shape), "squares": squares, "folds": folds, **facts}
        tensors: dict[str, npt.NDArray[np.generic]] = {
            "lut": lut.codebook.reshape(-1, 1),
            "idx": indices,
            "scale": lut.scale,
        }
        return MatrixResult(name=name, tensors=tensors, report=report)


def _importance(factor: Factor, order: I64) -> F64:
    """Return L_jj² of each column in natural order, 1 on average; dead columns count nothing beside live ones."""
    squares = np.square(np.diagonal(factor.lower))
    if not factor.dead.all():
        squares[factor.dead] = 0
    out = np.empty_like(squares)
    out[order] = squares / squares.mean()
    return out


def _weighted_squares(difference: F32, weights: F64) -> F64:
    """Return Σ_j weights_j·d_j² of each row, a few rows at a time."""
    out = np.empty(len(difference), np.float64)
    for start in range(0, len(difference), 256):
        rows = slice(start, start + 256)
        out[rows] = np.square(difference[rows], dtype=np.float64) @ weights
    return out
