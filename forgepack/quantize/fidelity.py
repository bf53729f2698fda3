"""A quantized matrix compared with the weights that it was made of: by equality where rounding is plain, else by row.

INT8 is plain rounding: codes and scales are computed again and must be equal. So are scales and indices of LUT4
by plain rounding (``rtn``), with the codebook that is there.

GPTQ moves weights on purpose, and how far depends on the calibration, which is not at hand. Two things hold however
it went. A row's scale is its root mean square times one of 29 factors (``fit``). And what GPTQ adds to a row is noise
across it: the row keeps its *gain*, which is how much of its source is in it, (q·w)/(w·w). The gain stays what plain
rounding to the same codes gives, near 1 where the codes reach the row's values and less where they cut them: how much
less is bounded by the source alone, since the codes may be forged as well. The bounds below were measured, each far
beyond what genuine rows need and far below what foreign ones give.

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

# Measured (docs/explanation/numerics.md). Most rows have a gain so near to 1 that plain rounding is not computed.
NEAR_GAIN = 0.1
# Of the others: a genuine gain is at most 0.15 off that of plain rounding. The gain of another row is 0, of a negated
# one -1, and of one whose scale is 1.3 times too large 1.3.
GAIN = 0.2
# A row may lose no more beyond that than its energy in values over six times its root mean square: genuine codes
# reach that far wherever there is much to reach.
PEAK = 6.0
# The energy that GPTQ adds to the error of plain rounding, over the row's: at most 0.68.
NOISE = 1.0
# Of all rows with a gain within GAIN of 1, each counted alike: at most 0.35 off their source, and a gain of 0.96 to
# 0.98. What is small in each row is large in all of them.
WHOLE = 0.6
WHOLE_GAIN = 0.08
# Where even plain rounding gives less gain, the row's values are far beyond the codes: worth a note.
HELD = 0.6
# How far a silent row may be off zero.
SILENT = 0.5
SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
SUBNORMAL = float(np.finfo(np.float16).smallest_normal)
# Weights of a block: it and what is computed from it stay near the processor's caches.
_BLOCK = 1 << 19
_WORKERS = 2
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What of a matrix can't come from its source: a tensor of the quantization, what was expected and found.

    ``loose`` says that nothing is wrong, but that the codes do not hold some rows.
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
    """What was found of consecutive rows: tensor -> which rows are wrong, and how many the codes do not hold.

    ``sums`` are how many rows have a gain within GAIN of 1, their squared distances and their gains.
    """

    wrong: dict[str, Bools]
    loose: int = 0
    sums: tuple[int, float, float] = (0, 0.0, 0.0)


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
    wrong = {"scale": ~_legal_scales(weights, scale, fit.source, plain=matrix.plain)}
    if matrix.plain:
        return _Rows(wrong=wrong | {"idx": (indices != _nearest(weights, scale, codebook)).any(axis=1)})
    held = (np.abs(fit.gain - 1) <= NEAR_GAIN) & (fit.distance <= NOISE * fit.source)
    off = np.flatnonzero(~held)
    odd, source, steps = fit.at(off), weights[off], scale[off]
    rounded = _Fit.of(source, _codes(_nearest(source, steps, codebook), codebook), steps)
    # A subnormal scale is too coarse for the row's size.
    lost = (odd.gain >= 1 - GAIN - _beyond(source, odd.source)) | (steps < SUBNORMAL)
    held[off] = (_like(odd, rounded) & lost) | _silent(odd, steps, weights.shape[1])
    loose = held[off] & (rounded.gain < HELD) & (steps > SMALLEST)
    summed = held & (np.abs(fit.gain - 1) <= GAIN)
    sums = (int(summed.sum()), float((fit.distance / fit.source)[summed].sum()), float(fit.gain[summed].sum()))
    return _Rows(wrong=wrong | {"idx": ~held}, loose=int(loose.sum()), sums=sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Of each row: squares of source and of difference, and the product of source and rounded row."""

    source: F64
    distance: F64
    both: F64

    @classmethod
    def of(cls, weights: F32, codes: F32, scale: F16) -> _Fit:
        wide = scale.astype(np.float64)
        source, both, own = (
            np.vecdot(a, b).astype(np.float64) for a, b in ((weights, weights), (weights, codes), (codes, codes))
        )
        return cls(source=source, distance=source - 2 * wide * both + wide * wide * own, both=wide * both)

    @property
    def gain(self) -> F64:
        """How much of its source is in each row; NaN for a row of zeros."""
        return self.both / self.source

    def at(self, rows: npt.NDArray[np.intp]) -> _Fit:
        return _Fit(source=self.source[rows], distance=self.distance[rows], both=self.both[rows])


def _like(fit: _Fit, plain: _Fit) -> Bools:
    """Say of rows whether their gain is that of plain rounding, with no more noise than GPTQ adds."""
    noise = fit.distance - plain.distance
    return np.asarray((np.abs(fit.gain - plain.gain) <= GAIN) & (noise <= NOISE * fit.source))


def _beyond(weights: F32, source: F64) -> F64:
    """Return the share of each row's energy in values beyond PEAK times its root mean square."""
    peaks = np.abs(weights) > PEAK * np.sqrt(source / weights.shape[1])[:, None]
    energy: F64 = np.square(weights, where=peaks, out=np.zeros_like(weights)).sum(axis=1, dtype=np.float64)
    return energy / source


def _silent(fit: _Fit, scale: F16, columns: int) -> Bools:
    """Say of rows whether they are as good as zero, by source and by scale."""
    return np.asarray((scale <= SMALLEST) & (fit.distance <= SILENT**2 * (fit.source + columns * SMALLEST**2)))


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
        "idx": "plain rounding of its source" if plain else f"with the gain of plain rounding, within {GAIN}",
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
        found = f"{loose} of {matrix.shape[0]} rows have values far beyond every code"
        yield Deviation(tensor=f"{matrix.name}.idx", expected="rows that 16 codes can hold", found=found, loose=True)


def _whole(matrix: Matrix, parts: list[_Rows]) -> Iterator[Deviation]:
    count, distance, gain = (sum(part.sums[n] for part in parts) for n in range(3))
    if count and not distance <= WHOLE**2 * count:
        expected = f"at most {WHOLE} off its source as a whole"
        yield Deviation(tensor=f"{matrix.name}.idx", expected=expected, found=f"{np.sqrt(distance / count):.3f}")
    if count and not abs(gain / count - 1) <= WHOLE_GAIN:
        expected = f"a gain within {WHOLE_GAIN} of 1 as a whole"
        yield Deviation(tensor=f"{matrix.name}.scale", expected=expected, found=f"{gain / count:.3f}")
