"""One normal form of a head: equal content is an equal digest, whatever parts, folds and order of the table."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.coreai_backend.head_content import (
    HeadContent,
    HeadSlice,
    compare_heads,
    content_of_safetensors,
)
from forgepack.coreai_backend.reader import AssetReading, open_head, read_asset
from forgepack.coreai_backend.target_assets import HeadWeights, author_head_package
from forgepack.errors import CorruptError, NumericsError
from forgepack.packing import pack_u4
from tests.coreai_backend.heads import METADATA, make_head, write_head_file


def content(
    head: HeadWeights, *, edges: tuple[int, ...] = (), fold: float = 1.0, order: list[int] | None = None
) -> HeadContent:
    """Return a head cut at ``edges``, folded, its table in another order, packed in every other part."""
    places = order or list(range(16))
    lut = (head.lut.astype(np.float32)[places] * np.float32(fold)).astype(np.float16).astype(np.float64)
    scale = (head.scale.astype(np.float32) / np.float32(fold)).astype(np.float16).astype(np.float64)
    idx = np.argsort(places).astype(np.uint8)[head.idx]
    vocab, columns = idx.shape
    slices = []
    bounds = [0, *edges, vocab]
    for n, (start, stop) in enumerate(pairwise(bounds)):
        rows = idx[start:stop]
        packed = pack_u4(rows).reshape(len(rows), -1)
        slices.append(
            HeadSlice(
                rows=stop - start,
                columns=columns,
                packed=n % 2 == 0,
                load=lambda data=(packed if n % 2 == 0 else rows): data,  # type: ignore[misc]
                lut=lut,
                scale=scale[start:stop],
            )
        )
    return HeadContent(slices, "head")


SMALL = make_head(vocab=24, hidden=6)


@settings(max_examples=50)
@given(
    edges=st.sets(st.integers(1, 23), max_size=5),
    power=st.integers(-6, 3),
    order=st.permutations(range(16)),
)
def test_digest_ignores_parts_folds_and_order(edges: set[int], power: int, order: list[int]) -> None:
    """Cutting into parts, moving a power of two and permuting the table leave the digest as it is."""
    other = content(SMALL, edges=tuple(sorted(edges)), fold=2.0**power, order=order)
    assert other.digest() == content(SMALL).digest()
    assert compare_heads(other, content(SMALL)).rows == 0


def unhashed(head: HeadContent) -> HeadContent:
    """Return a head that has no digest of its own to give."""
    head.digest = None  # type: ignore[assignment,method-assign]
    return head


@settings(max_examples=50)
@given(edges=st.sets(st.integers(1, 23), max_size=5), power=st.integers(-6, 3), order=st.permutations(range(16)))
def test_a_head_of_equal_rows_has_the_known_digest(edges: set[int], power: int, order: list[int]) -> None:
    """Held against an equal head, whatever parts, folds and tables, nothing is hashed to give the same digest."""
    known = content(SMALL).digest()
    other = content(SMALL, edges=tuple(sorted(edges)), fold=2.0**power, order=order)
    assert known == unhashed(other).digest_like(content(SMALL), known)


@settings(max_examples=50)
@given(row=st.integers(0, 23), column=st.integers(0, 5), step=st.integers(1, 15), scaled=st.booleans())
def test_a_head_of_other_rows_is_hashed(row: int, column: int, step: int, scaled: bool) -> None:
    """One other index or scale, and the digest is that of the head itself."""
    idx, scale = SMALL.idx.copy(), SMALL.scale.copy()
    if scaled:
        scale[row] *= 2
    else:
        idx[row, column] = (idx[row, column] + step) % 16
    other = content(replace(SMALL, idx=idx, scale=scale), edges=(5, 11))
    known = content(SMALL).digest()
    assert other.digest() == other.digest_like(content(SMALL), known) != known


def test_a_head_of_another_shape_is_hashed() -> None:
    """Fewer rows or columns than the known head has are never taken for its own."""
    known = content(SMALL).digest()
    for shape in ((23, 6), (24, 4)):
        other = content(replace(SMALL, idx=SMALL.idx[: shape[0], : shape[1]], scale=SMALL.scale[: shape[0]]))
        assert other.digest() == other.digest_like(content(SMALL), known) != known


@settings(max_examples=30)
@given(row=st.integers(0, 23), column=st.integers(0, 5), step=st.integers(1, 15))
def test_digest_sees_every_index(row: int, column: int, step: int) -> None:
    """One changed index changes the digest, and the comparison names its row."""
    idx = SMALL.idx.copy()
    idx[row, column] = (idx[row, column] + step) % 16
    other = content(replace(SMALL, idx=idx), edges=(5, 11))
    assert other.digest() != content(SMALL).digest()
    assert compare_heads(content(SMALL), other).first == (row,)


def test_digest_sees_scale_and_table() -> None:
    """One step of one scale or of one table value is another head."""
    scale, lut = SMALL.scale.copy(), SMALL.lut.copy()
    scale[3] = np.nextafter(scale[3], np.float16(1))
    lut[2] = np.nextafter(lut[2], np.float16(9))
    reference = content(SMALL).digest()
    assert content(replace(SMALL, scale=scale)).digest() != reference
    assert content(replace(SMALL, lut=lut)).digest() != reference
    assert compare_heads(content(SMALL), content(replace(SMALL, scale=scale))).first == (3,)


def test_equal_table_values_are_one_value() -> None:
    """Two indices of one value mean the same, and minus zero is zero."""
    lut = SMALL.lut.copy()
    lut[4] = lut[9]
    lut[1], lut[2] = np.float16(0.0), np.float16(-0.0)
    one = replace(SMALL, lut=lut)
    swapped = SMALL.idx.copy()
    for a, b in ((4, 9), (1, 2)):
        swapped[SMALL.idx == a] = b
    assert content(replace(one, idx=swapped)).digest() == content(one).digest()


def test_rounding_of_a_fold_is_told_apart() -> None:
    """A fold that makes a table value subnormal changes products by a rounding, which is no stale head."""
    lut = SMALL.lut.copy()
    lut[7] = np.float16(1.003e-4)
    head = replace(SMALL, lut=lut)
    folded = content(head, fold=1 / 64)
    assert folded.digest() != content(head).digest()
    found = compare_heads(content(head), folded)
    assert (found.rows, found.rounded) == (0, 24)


def test_three_forms_of_one_head_agree(head: HeadWeights, head_reading: AssetReading, tmp_path: Path) -> None:
    """The package's constants, lm_head.safetensors and a package of other parts and fold have one digest."""
    file = write_head_file(tmp_path / "lm_head.safetensors", head)
    author_head_package(tmp_path / "other.aimodel", replace(head, fold=0.25), parts=3, metadata=METADATA)
    other = read_asset(read_asset_files(tmp_path / "other.aimodel"), head=True)
    digests = {
        content_of_safetensors(file).digest(),
        head_reading.require_head().digest,
        other.require_head().digest,
    }
    assert len(digests) == 1
    with open_head(other) as opened:
        assert compare_heads(opened, content_of_safetensors(file)).rows == 0


def test_a_stale_head_is_seen_row_by_row(head_reading: AssetReading, tmp_path: Path) -> None:
    """Another export's head differs in digest, and the first differing rows are named."""
    stale = write_head_file(tmp_path / "lm_head.safetensors", make_head(seed=2))
    assert content_of_safetensors(stale).digest() != head_reading.require_head().digest
    with open_head(head_reading) as opened:
        found = compare_heads(opened, content_of_safetensors(stale))
    assert found.rows == 101
    assert found.first == tuple(range(8))


def test_an_index_over_15_is_corrupt(tmp_path: Path) -> None:
    """An unpacked index that is no 4-bit number is damage, not a value."""
    idx = SMALL.idx.copy()
    idx[7, 2] = 16
    file = write_head_file(tmp_path / "lm_head.safetensors", replace(SMALL, idx=idx))
    with pytest.raises(CorruptError) as caught:
        content_of_safetensors(file).digest()
    assert caught.value.code == "lut-index"


def test_a_table_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    """NaN in a table is an error of numerics, before any digest."""
    lut = SMALL.lut.copy()
    lut[0] = np.float16("nan")
    file = write_head_file(tmp_path / "lm_head.safetensors", replace(SMALL, lut=lut))
    with pytest.raises(NumericsError):
        content_of_safetensors(file)
