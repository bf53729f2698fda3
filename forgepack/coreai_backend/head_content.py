"""What a head's numbers are, whatever its parts and folds: one normal form for package and safetensors.

Each row of a LUT4 head is ``lut[idx]·scale``. A fold moves a power of two between table and scale and leaves each
product as it is, so the form is: the 4-bit ranks of the indices in the ascending table of distinct values, and the
16 products of each row (two float16 factors make an exact float64; the last distinct value fills up to 16).
Rows are streamed; nothing of the size of the head is held in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import DTYPES, SafetensorsFile
from forgepack.canonical import digest_json
from forgepack.coreai_backend.head import Head, HeadPart
from forgepack.coreai_backend.program import AssetProgram
from forgepack.errors import CorruptError, MissingError, NumericsError
from forgepack.packing import pack_u4

U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]
BLOCK_BYTES = 2 << 20
LEVELS = 16
# Half of float16's smallest step: what rounding a folded table value or scale to a subnormal can change.
_HALF_STEP = 2.0**-25


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadDigest:
    """Identity of a head's content. ``digest`` covers rows, columns, ranks and products."""

    rows: int
    columns: int
    ranks_sha256: str
    products_sha256: str

    @property
    def digest(self) -> str:
        """One digest of it all."""
        return digest_json([self.rows, self.columns, self.ranks_sha256, self.products_sha256])


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSlice:
    """Consecutive rows with one table of 16 and one scale a row, both in float64.

    ``load`` returns the indices as U8: (rows, columns), or (rows, columns/2) when ``packed``. It is called when the
    rows are reached, and its result dropped when they are passed.
    """

    rows: int
    columns: int
    packed: bool
    load: Callable[[], U8]
    lut: F64
    scale: F64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifferences:
    """Rows in which two heads differ: how many, the first few, and how many differ by a fold's rounding alone."""

    rows: int
    first: tuple[int, ...]
    rounded: int


class HeadContent:
    """A head as rows that can be read in normal form, block by block."""

    def __init__(self, slices: Sequence[HeadSlice], where: str) -> None:
        self._where = where
        self._slices = tuple(slices)
        self._tables = [self._rank(part.lut) for part in self._slices]
        self.starts = list(accumulate((part.rows for part in self._slices), initial=0))
        self.rows = self.starts[-1]
        self.columns = self._slices[0].columns
        self._loaded: tuple[int, U8] | None = None

    def block(self, start: int, stop: int) -> tuple[U8, F64]:
        """Return (packed ranks (n, columns/2), products (n, 16)) of rows that are in one part."""
        place, rows = self._locate(start, stop)
        part, (values, ranks) = self._slices[place], self._tables[place]
        products = part.scale[rows, None] * values[None, :] + 0.0  # + 0.0 turns -0.0 into 0.0
        return self._pack(part, self._indices(place)[rows], ranks), products

    def rounding(self, start: int, stop: int) -> F64:
        """Return (n, 16): by how much a product may be off because a folded factor became a subnormal."""
        place, rows = self._locate(start, stop)
        return (np.abs(self._slices[place].scale[rows, None]) + np.abs(self._tables[place][0])) * _HALF_STEP

    def _locate(self, start: int, stop: int) -> tuple[int, slice]:
        place = int(np.searchsorted(self.starts, start, side="right")) - 1
        return place, slice(start - self.starts[place], stop - self.starts[place])

    def digest(self) -> HeadDigest:
        """Return the digest of all rows, reading each once."""
        ranks, products = hashlib.sha256(), hashlib.sha256()
        for start, stop in blocks([self]):
            packed, row_products = self.block(start, stop)
            ranks.update(np.ascontiguousarray(packed).data)
            products.update(np.ascontiguousarray(row_products, "<f8").data)
            del packed  # it may be a view of a part that is done with, and the next one is as large
        return HeadDigest(
            rows=self.rows,
            columns=self.columns,
            ranks_sha256=ranks.hexdigest(),
            products_sha256=products.hexdigest(),
        )

    def digest_like(self, other: HeadContent, known: HeadDigest) -> HeadDigest:
        """Return the digest: ``known``, that of ``other``, when all rows are equal, which costs less to find out."""
        shape = (self.rows, self.columns)
        return known if shape == (other.rows, other.columns) and self._same_rows(other) else self.digest()

    def _same_rows(self, other: HeadContent) -> bool:
        for start, stop in blocks([self, other]):
            (ranks, products), (known, expected) = self.block(start, stop), other.block(start, stop)
            if not (np.array_equal(ranks, known) and np.array_equal(products, expected)):
                return False
        return True

    def _indices(self, place: int) -> U8:
        if self._loaded is None or self._loaded[0] != place:
            self._loaded = None
            self._loaded = (place, self._slices[place].load())
        return self._loaded[1]

    def _rank(self, lut: F64) -> tuple[F64, U8 | None]:
        """Return (ascending distinct values, the last repeated to 16; rank of each index, None for themselves)."""
        if not np.isfinite(lut).all() or lut.size != LEVELS:
            raise NumericsError(
                "a head's table is not 16 finite values", where=self._where, found=str(lut.tolist())[:200]
            )
        distinct, ranks = np.unique(lut + 0.0, return_inverse=True)
        values = np.concatenate([distinct, np.repeat(distinct[-1:], LEVELS - distinct.size)])
        return values, None if (ranks == np.arange(LEVELS)).all() else ranks.astype(np.uint8)

    def _pack(self, part: HeadSlice, chunk: U8, ranks: U8 | None) -> U8:
        if part.packed:
            if ranks is None:
                return chunk
            pairs: U8 = (ranks[None, :] | ranks[:, None] << np.uint8(4)).reshape(-1)  # a byte -> both nibbles' ranks
            return pairs[chunk]
        try:
            return pack_u4(chunk if ranks is None else ranks[chunk]).reshape(len(chunk), -1)
        except (NumericsError, IndexError) as err:
            raise CorruptError(
                "a head's index is out of range",
                where=self._where,
                expected="0..15",
                found=str(int(chunk.max())),
                code="lut-index",
            ) from err


def blocks(heads: Sequence[HeadContent]) -> Iterator[tuple[int, int]]:
    """Yield row ranges in order, none of which crosses a part of any of the heads."""
    step = max(1, BLOCK_BYTES // heads[0].columns)
    edges = sorted({edge for head in heads for edge in head.starts})
    for low, high in pairwise(edges):
        for start in range(low, high, step):
            yield start, min(start + step, high)


def compare_heads(left: HeadContent, right: HeadContent, *, keep: int = 8) -> RowDifferences:
    """Compare two heads of one shape row by row; call it when their digests differ, to say where.

    A row whose ranks are equal and whose products differ by no more than the rounding of a folded table value or
    scale to a float16 subnormal counts as rounded, not as different.
    """
    first: list[int] = []
    count = rounded = 0
    for start, stop in blocks([left, right]):
        (ranks_a, products_a), (ranks_b, products_b) = left.block(start, stop), right.block(start, stop)
        moved = (ranks_a != ranks_b).any(axis=1)
        unequal = (products_a != products_b).any(axis=1)
        bound = left.rounding(start, stop) + right.rounding(start, stop)
        near = (np.abs(products_a - products_b) <= bound).all(axis=1)
        differing = moved | (unequal & ~near)
        rounded += int((unequal & near & ~moved).sum())
        count += int(differing.sum())
        if len(first) < keep:
            first.extend((start + np.flatnonzero(differing)[: keep - len(first)]).tolist())
    return RowDifferences(rows=count, first=tuple(first), rounded=rounded)


def content_of_safetensors(file: SafetensorsFile) -> HeadContent:
    """Return the head of an export's lm_head.safetensors: lm_head.idx U8, lm_head.lut F16 [16,1], lm_head.scale F16.

    Raises CorruptError (``head-form``) when the three tensors are not of one LUT4 head.
    """
    try:
        idx, lut, scale = (file.info(f"lm_head.{name}") for name in ("idx", "lut", "scale"))
    except MissingError as err:
        raise CorruptError("not a LUT4 head", where=str(file.path), found=err.what, code="head-form") from err
    found = [(info.dtype, info.shape) for info in (idx, lut, scale)]
    rows, columns = (*idx.shape, 0, 0)[:2]
    expected = [("U8", (rows, columns)), ("F16", (LEVELS, 1)), ("F16", (rows,))]
    if found != expected or rows < 1 or columns < 1 or columns % 2:
        raise CorruptError(
            "not a LUT4 head",
            where=str(file.path),
            expected="idx U8 [V,H], lut F16 [16,1], scale F16 [V], H even",
            found=str(found),
            code="head-form",
        )
    part = HeadSlice(
        rows=rows,
        columns=columns,
        packed=False,
        load=lambda: file.array("lm_head.idx"),
        lut=np.asarray(file.array("lm_head.lut"), np.float64).reshape(-1),
        scale=np.asarray(file.array("lm_head.scale"), np.float64),
    )
    return HeadContent([part], str(file.path))


def content_of_program(
    program: AssetProgram, head: Head, payload: Callable[[int], npt.NDArray[np.uint8]], where: str
) -> HeadContent:
    """Return the content of a LUT4 head that ``find_head`` found; ``payload`` fetches a constant's bytes by index."""
    if head.forms != ("lut4",) or head.columns % 2:
        raise CorruptError(
            "the head is not LUT4",
            where=where,
            expected="parts of form lut4",
            found=f"parts of form {', '.join(head.forms)}",
            code="head-form",
        )
    return HeadContent([_slice_of(program, part, payload) for part in head.parts], where)


def _slice_of(program: AssetProgram, part: HeadPart, payload: Callable[[int], U8]) -> HeadSlice:
    assert part.lut is not None
    scale = np.ones(part.rows)
    for factor in part.factors:
        scale = scale * _floats(program, factor, payload)
    return HeadSlice(
        rows=part.rows,
        columns=part.columns,
        packed=True,
        load=lambda: payload(part.weight).reshape(part.rows, part.columns // 2),
        lut=_floats(program, part.lut, payload),
        scale=scale,
    )


def _floats(program: AssetProgram, index: int, payload: Callable[[int], U8]) -> F64:
    constant = program.constants[index]
    if constant.dtype not in ("F16", "BF16", "F32"):
        raise CorruptError("a head's factor is not a float", found=constant.dtype, code="head-form")
    return payload(index).view(DTYPES[constant.dtype]).reshape(-1).astype(np.float64)
