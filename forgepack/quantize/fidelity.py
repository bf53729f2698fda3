"""A quantized matrix compared with the weights that it was made of: by equality where rounding is plain, else by row.

INT8 is plain rounding: codes and scales are computed again and must be equal. So are scales and indices of LUT4
by plain rounding (``rtn``), with the codebook that is there.

GPTQ moves weights on purpose, and how far depends on the calibration, which is not at hand. Two things hold however
it went. A row's scale is its root mean square times one of 29 factors (``fit``). And the row stays near its source:
the bounds below were measured, each far beyond what genuine rows need and far below what foreign ones give. Only a
row whose energy is in a few values beyond every code (a property of the source alone) is off by more, since such
values are cut: it is compared loosely, and counted.

What this can't find: an index that is off by a few steps, which GPTQ might have chosen as well.

Everything is computed in blocks of rows on two threads; a block takes about 10 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.geometry import Geometry, int8_matrices, lut_matrices
from forgepack.parallel import spans
from forgepack.quantize.fit import FACTORS
from forgepack.quantize.int8 import quantize_int8
from forgepack.quantize.lut import CODES, midpoints, root_mean_square

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

# Measured (docs/explanation/numerics.md): genuine rows of the miniature and of full-size matrices are off by at most
# 0.45 of their source, and the scale is 0.95 to 1.08 times the one that fits their codes best. Another row of the
# same size is off by 1.4, a negated one by 2; a scale that is 1.3 times too large gives 1.23 or more.
NEAR = 0.5
NEAR_FACTOR = (0.85, 1.2)
# A row is peaked where more than half of its energy is in values beyond six times its root mean square. Genuine rows
# that are not as near as the others have 0.59 or more there; those are off by at most 1.07.
PEAK, PEAKED = 6.0, 0.5
FAR = 1.25
# Of all rows that are near, together: at most 0.35 and 0.043. What is small in each row is large in all of them.
WHOLE = 0.45
WHOLE_FACTOR = 0.1
SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
# Weights of a block: it and what is computed from it stay near the processor's caches.
_BLOCK = 1 << 19
_WORKERS = 2
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What of a matrix can't come from its source: a tensor of the quantization, what was expected and found.

    ``loose`` says that nothing is wrong, but that rows were compared by the looser bound.
    """

    tensor: str
    expected: str
    found: str
    loose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One matrix in both files; ``plain`` says that it was rounded plainly, not by GPTQ."""

    name: str
    quant: SafetensorsFile
    checkpoint: SafetensorsFile
    plain: bool = False

    @property
    def lut4(self) -> bool:
        """Whether it is a LUT4 matrix; the others are INT8."""
        return f"{self.name}.idx" in self.quant.tensors

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.checkpoint.info(self.name).shape

    def stored(self, suffix: str) -> npt.NDArray[Any]:
        """Return one of its quantized tensors."""
        return self.quant.array(f"{self.name}.{suffix}")

    def weights(self, rows: slice) -> F32:
        """Return rows of its source as float32."""
        out: F32 = self.checkpoint.array(self.name)[rows].astype(np.float32)
        return out


def matrices_of(
    quant: SafetensorsFile, checkpoint: SafetensorsFile, geometry: Geometry, *, plain: bool
) -> Iterator[Matrix]:
    """Yield every quantized matrix of a drafter, in the order in which the checkpoint's file holds their sources."""
    names = {**lut_matrices(geometry), **int8_matrices(geometry)}
    known = [name for name in names if name in checkpoint.tensors]
    for name in sorted(known, key=lambda name: checkpoint.info(name).begin):
        yield Matrix(name=name, quant=quant, checkpoint=checkpoint, plain=plain)


def compared_bytes(geometry: Geometry) -> int:
    """Return how many bytes ``note`` is given in all: two of each weight's source, one of its code."""
    shapes = {**lut_matrices(geometry), **int8_matrices(geometry)}.values()
    return sum(3 * rows * columns for rows, columns in shapes)


def compare_matrices(
    matrices: Iterable[Matrix], *, note: Callable[[int], None] = lambda _: None
) -> Iterator[Deviation]:
    """Yield every deviation of the matrices from their sources, in order; ``note`` is given the bytes that were read.

    The tensors of both files must have the profile's shapes and dtypes.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        for matrix in matrices:
            rows, columns = matrix.shape
            blocks = spans(rows, max(1, _BLOCK // columns))
            yield from _told(matrix, list(pool.map(partial(_compare, matrix, note), blocks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What was found of consecutive rows: tensor -> which rows are wrong, and how many were compared loosely.

    ``sums`` are squares of the difference, of the source, and of the logarithm of the factor, over the ``near`` rows.
    """

    wrong: dict[str, Bools]
    loose: int = 0
    near: int = 0
    sums: tuple[float, float, float] = (0.0, 0.0, 0.0)


def _compare(matrix: Matrix, note: Callable[[int], None], rows: slice) -> _Rows:
    with np.errstate(all="ignore"):  # what is not a number is wrong by every comparison below
        found = (_lut4_rows if matrix.lut4 else _int8_rows)(matrix, rows)
    note(3 * (rows.stop - rows.start) * matrix.shape[1])
    return found


def _int8_rows(matrix: Matrix, rows: slice) -> _Rows:
    codes, scale = quantize_int8(matrix.weights(rows), matrix.name)
    wrong = {
        "int8": (codes != matrix.stored("int8")[rows]).any(axis=1),
        "scale": scale != matrix.stored("scale")[rows],
    }
    return _Rows(wrong=wrong)


def _lut4_rows(matrix: Matrix, rows: slice) -> _Rows:
    weights, scale = matrix.weights(rows), matrix.stored("scale")[rows]
    codebook = np.asarray(matrix.stored("lut"), np.float16).reshape(-1)
    indices: U8 = np.ascontiguousarray(matrix.stored("idx")[rows])
    fit = _Fit.of(weights, _codes(indices, codebook), scale)
    near = (fit.distance <= NEAR**2 * fit.source) & (fit.factor >= NEAR_FACTOR[0]) & (fit.factor <= NEAR_FACTOR[1])
    far = np.flatnonzero(~near)
    excused = _excused(weights[far], fit.source[far], fit.distance[far], scale[far])
    codes = (indices != _nearest(weights, scale, codebook)).any(axis=1) if matrix.plain else ~near
    if not matrix.plain:
        codes[far] = ~excused
    squares = np.square(np.log(fit.factor[near])).sum()
    return _Rows(
        wrong={"scale": ~_legal_scales(weights, scale, fit.source, plain=matrix.plain), "idx": codes},
        loose=0 if matrix.plain else int((excused & (fit.source[far] > 0)).sum()),
        near=int(near.sum()),
        sums=(float(fit.distance[near].sum()), float(fit.source[near].sum()), float(squares)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Of each row: squares of source and of difference, and its scale over the one that fits its codes best."""

    source: F64
    distance: F64
    factor: F64

    @classmethod
    def of(cls, weights: F32, codes: F32, scale: F16) -> _Fit:
        wide = scale.astype(np.float64)
        source, both, own = (
            np.vecdot(a, b).astype(np.float64) for a, b in ((weights, weights), (weights, codes), (codes, codes))
        )
        return cls(source=source, distance=source - 2 * wide * both + wide * wide * own, factor=wide * own / both)


def _excused(weights: F32, source: F64, distance: F64, scale: F16) -> Bools:
    """Say of rows that are not near whether they need not be: silent ones, as good as zero, and peaked ones."""
    columns = weights.shape[1]
    silent = (scale <= SMALLEST) & (distance <= NEAR**2 * (source + columns * SMALLEST**2))
    beyond = np.abs(weights) > PEAK * np.sqrt(source / columns)[:, None]
    energy = np.square(weights, where=beyond, out=np.zeros_like(weights)).sum(axis=1, dtype=np.float64)
    return np.asarray(silent | ((energy > PEAKED * source) & (distance <= FAR**2 * source)))


def _legal_scales(weights: F32, scale: F16, squares: F64, *, plain: bool) -> Bools:
    """Say of each row whether its scale is one that the recipe gives its weights.

    The cheap sum of squares decides most rows; where its rounding may matter, the exact one does.
    """
    held = _recipe_scales(np.sqrt(squares / weights.shape[1]), scale, plain=plain)
    if not held.all():
        held[~held] = _recipe_scales(root_mean_square(weights[~held]), scale[~held], plain=plain)
    return held


def _recipe_scales(spread: F64, scale: F16, *, plain: bool) -> Bools:
    base = spread.astype(np.float16)
    silent = base == 0
    if plain:
        return np.asarray(scale == np.where(silent, np.float16(1), base))
    legal = (base.astype(np.float64)[:, None] * FACTORS).astype(np.float16)
    stepped = ((legal == scale[:, None]) & (legal > 0)).any(axis=1)
    return np.asarray(np.where(silent, scale == np.float16(SMALLEST), stepped))


def _nearest(weights: F32, scale: F16, codebook: F16) -> U8:
    ratio = weights / scale.astype(np.float32)[:, None]
    return np.searchsorted(midpoints(codebook), ratio).astype(np.uint8)


def _codes(indices: U8, codebook: F16) -> F32:
    """Return the codes of indices as float32, NaN for an index over 15; two are looked up at once where they pair."""
    single = np.full(256, np.nan, np.float32)
    single[:CODES] = codebook
    if indices.shape[1] % 2:
        return np.take(single, indices)
    pairs = np.stack(np.broadcast_arrays(single[None, :], single[:, None]), axis=-1).reshape(-1, 2)
    found: F32 = np.take(pairs.view(np.complex64).reshape(-1), indices.view("<u2"), mode="clip").view(np.float32)
    return found


def _told(matrix: Matrix, parts: list[_Rows]) -> Iterator[Deviation]:
    """Yield what the rows of a matrix add up to: wrong rows by tensor, else the matrix as a whole."""
    plain = matrix.plain or not matrix.lut4
    expected = {
        "scale": "plain rounding of its source" if plain else "its source's root mean square by a step of the recipe",
        "idx": "plain rounding of its source" if plain else f"within {NEAR} of its source, at its own scale",
        "int8": "plain rounding of its source",
    }
    told = False
    for suffix in parts[0].wrong:
        wrong = np.flatnonzero(np.concatenate([part.wrong[suffix] for part in parts]))
        if wrong.size:
            told = True
            first = ", ".join(map(str, wrong[:_SHOWN])) + (", …" if wrong.size > _SHOWN else "")
            found = f"{wrong.size} of {matrix.shape[0]} rows are not: {first}"
            yield Deviation(tensor=f"{matrix.name}.{suffix}", expected=f"each row {expected[suffix]}", found=found)
    if matrix.lut4 and not told:
        yield from _whole(matrix, parts)
    if loose := sum(part.loose for part in parts):
        found = f"{loose} of {matrix.shape[0]} rows have most of their energy beyond every code"
        yield Deviation(tensor=f"{matrix.name}.idx", expected="rows that 16 codes can hold", found=found, loose=True)


def _whole(matrix: Matrix, parts: list[_Rows]) -> Iterator[Deviation]:
    distance, source, factors = (sum(part.sums[n] for part in parts) for n in range(3))
    count = sum(part.near for part in parts)
    if count and not distance <= WHOLE**2 * source:
        found = f"{np.sqrt(distance / source):.3f}"
        expected = f"at most {WHOLE} off its source as a whole"
        yield Deviation(tensor=f"{matrix.name}.idx", expected=expected, found=found)
    if count and not factors <= WHOLE_FACTOR**2 * count:
        expected = f"scales within {WHOLE_FACTOR} of those that fit best, as a whole"
        found = f"{np.sqrt(factors / count):.3f}"
        yield Deviation(tensor=f"{matrix.name}.scale", expected=expected, found=found)
