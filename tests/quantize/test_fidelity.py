"""A quantized matrix beside its source: genuine ones of every kind pass, and what no rounding makes is found."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.parallel import open_pool
from forgepack.quantize.fidelity import Matrix, compare_matrices
from forgepack.quantize.int8 import quantize_int8
from forgepack.quantize.lut import fit_lut4
from tests.quantize.gptq_rows import NAME, Array, Rounded, make_rounded, write_tensors

# An ordinary row.
ROW = 40
SHAPES = (
    {"rows": 64, "columns": 640, "calibration": 900, "rank": 64},
    {"rows": 64, "columns": 641, "calibration": 900, "rank": 8},
    {"rows": 64, "columns": 640, "calibration": 30, "rank": 16},
)


@pytest.fixture(scope="module")
def rounded() -> Rounded:
    return make_rounded(**SHAPES[0], seed=1)


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_what_gptq_makes_of_odd_rows_passes(number: int, tmp_path: Path) -> None:
    """Zero, silent, subnormal, sparse, constant and heavy-tailed rows; few calibration rows; an odd width."""
    genuine = make_rounded(**SHAPES[number], seed=10 + number)
    assert set() == genuine.wrong(tmp_path)


def test_noise_across_a_row_is_left_to_gptq(rounded: Rounded, tmp_path: Path) -> None:
    """Strong correlation of the inputs moves GPTQ as far as this: most of a row's size, and none of its gain."""
    assert set() == rounded.changed(idx=_rerounded(rounded, lambda row: row + 0.75 * NOISE)).wrong(tmp_path)


def test_rows_that_no_codebook_reaches_are_counted(tmp_path: Path) -> None:
    """Rows with values among thousands that are far beyond the codes pass, and that is told."""
    wide = make_rounded(rows=24, columns=3072, calibration=300, rank=64, seed=6)
    (told,) = wide.compare(tmp_path)
    assert (True, f"{NAME}.idx") == (told.loose, told.tensor)


def _exchanged(array: Array, one: int = ROW, other: int = ROW + 1) -> Array:
    out = array.copy()
    out[[one, other]] = out[[other, one]]
    return out


def _row(array: Array, change: Callable[[Array], object]) -> Array:
    out = array.copy()
    out[ROW] = change(out[ROW])
    return out


NOISE = np.random.default_rng(5).standard_normal(SHAPES[0]["columns"])


def _rerounded(rounded: Rounded, change: Callable[[Array], Array]) -> Array:
    """Return the indices with an ordinary row rounded plainly after a change of its weights over its scale."""
    codes = rounded.lut.reshape(-1).astype(np.float64)
    changed = change(rounded.weights[ROW].astype(np.float64) / np.float64(rounded.scale[ROW]))
    return _row(rounded.idx, lambda _: np.abs(changed[:, None] - codes).argmin(axis=1))


def _recoded(rounded: Rounded, codes: Array) -> Rounded:
    """Return all rows rounded plainly to other codes, as one would who forges the codebook along with the indices."""
    scaled = rounded.weights.astype(np.float64) / rounded.scale.astype(np.float64)[:, None]
    indices = np.abs(scaled[..., None] - codes).argmin(axis=2).astype(np.uint8)
    return rounded.changed(lut=codes.astype(np.float16).reshape(-1, 1), idx=indices)


FORGED: dict[str, tuple[Callable[[Rounded], Rounded], str]] = {
    "one scale negated": (lambda r: r.changed(scale=_row(r.scale, np.negative)), "scale"),
    "one row's indices mirrored": (lambda r: r.changed(idx=_row(r.idx, lambda row: 15 - row)), "idx"),
    "one scale times 1.3": (lambda r: r.changed(scale=_row(r.scale, lambda s: np.float16(s * 1.3))), "scale"),
    "two scales exchanged": (lambda r: r.changed(scale=_exchanged(r.scale)), "scale"),
    "two rows' indices exchanged": (lambda r: r.changed(idx=_exchanged(r.idx)), "idx"),
    "two rows exchanged": (lambda r: r.changed(idx=_exchanged(r.idx), scale=_exchanged(r.scale)), "idx"),
    "one row's columns rolled": (lambda r: r.changed(idx=_row(r.idx, lambda row: np.roll(row, 1))), "idx"),
    "scales rolled": (lambda r: r.changed(scale=np.roll(r.scale, 1)), "scale"),
    "indices rolled": (lambda r: r.changed(idx=np.roll(r.idx, 1, axis=0)), "idx"),
    "codebook reversed": (lambda r: r.changed(lut=r.lut[::-1].copy()), "idx"),
    "codebook times 1.3": (lambda r: r.changed(lut=(r.lut * 1.3).astype(np.float16)), "idx"),
    "codebook NaN": (lambda r: r.changed(lut=np.full_like(r.lut, np.nan)), "idx"),
    "an index of 16": (lambda r: r.changed(idx=_row(r.idx, lambda row: np.r_[row[:-1], 16])), "idx"),
    "a row of zeros": (lambda r: r.changed(scale=_row(r.scale, np.zeros_like)), "scale"),
    "one row at half its size": (lambda r: r.changed(idx=_rerounded(r, lambda row: row / 2)), "idx"),
    "one row in noise": (lambda r: r.changed(idx=_rerounded(r, lambda row: row + 1.5 * NOISE)), "idx"),
    "codes of zeros": (lambda r: _recoded(r, np.zeros(16)), "idx"),
    "codes too small": (lambda r: _recoded(r, np.linspace(-0.3, 0.3, 16)), "idx"),
    "codes that cut most rows a little": (lambda r: _recoded(r, np.linspace(-1.6, 1.6, 16)), "idx"),
    "codes of signs": (lambda r: _recoded(r, np.repeat([-0.8, 0.8], 8)), "idx"),
    "another matrix": (lambda r: make_rounded(**SHAPES[0], seed=2).changed(weights=r.weights), "idx"),
    "the source negated": (lambda r: r.changed(weights=-r.weights), "idx"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_no_rounding_makes_is_found(rounded: Rounded, name: str, tmp_path: Path) -> None:
    """One row of many is enough; the tensor at fault is named."""
    change, suffix = FORGED[name]
    assert suffix in change(rounded).wrong(tmp_path)


def test_a_row_is_told_by_its_number(rounded: Rounded, tmp_path: Path) -> None:
    """The message counts the rows and names the first."""
    told = rounded.changed(scale=_row(rounded.scale, np.negative)).compare(tmp_path)
    assert f"1 of 64 rows are not: {ROW}" in {one.found for one in told}


def test_what_is_small_in_each_row_is_found_in_all(rounded: Rounded, tmp_path: Path) -> None:
    """Every row's scale five steps up: each may be legal, all of them are not."""
    rows = slice(len(rounded.special), None)
    steps = np.round(28 * np.log2(rounded.scale[rows] / np.sqrt(np.mean(np.square(
        rounded.weights[rows].astype(np.float64)), axis=1))))  # fmt: skip
    base = np.sqrt(np.mean(np.square(rounded.weights.astype(np.float64)), axis=1)).astype(np.float16)
    scale = rounded.scale.copy()
    scale[rows] = (base[rows].astype(np.float64) * np.exp2(np.minimum(steps + 6, 14) / 28)).astype(np.float16)
    assert rounded.changed(scale=scale).wrong(tmp_path)


def test_plain_rounding_is_compared_by_equality(tmp_path: Path) -> None:
    """By plain rounding one index a step off, or one scale an ulp off, is found."""
    weights = make_rounded(**SHAPES[0], seed=3).weights
    source = weights.astype(np.float32)
    lut = fit_lut4(source, iterations=10, samples=4096, where=NAME)
    with open_pool(1) as pool:
        idx = lut.round(lut.normalise(source), pool)
    plain = Rounded(weights=weights, lut=lut.codebook.reshape(-1, 1), idx=idx, scale=lut.scale, special={})
    assert [] == plain.compare(tmp_path, plain=True)
    stepped = _row(idx, lambda row: np.r_[row[:1] ^ 1, row[1:]])
    assert [f"{NAME}.idx"] == [one.tensor for one in plain.changed(idx=stepped).compare(tmp_path, plain=True)]
    nudged = _row(lut.scale, lambda scale: np.nextafter(scale, np.float16(1)))
    assert f"{NAME}.scale" in {one.tensor for one in plain.changed(scale=nudged).compare(tmp_path, plain=True)}


@pytest.mark.parametrize("change", ["nothing", "code", "scale"])
def test_int8_is_compared_by_equality(change: str, tmp_path: Path) -> None:
    """One code or scale that is off by one is found; rows of zeros pass."""
    weights = np.random.default_rng(4).standard_normal((24, 64)).astype(ml_dtypes.bfloat16)
    weights[5] = 0
    codes, scale = quantize_int8(weights.astype(np.float32), NAME)
    if change == "code":
        codes[7, 3] += 1 if codes[7, 3] < 0 else -1
    elif change == "scale":
        scale[7] = np.nextafter(scale[7], np.float16(1))
    tensors: dict[str, tuple[str, Array]] = {f"{NAME}.int8": ("I8", codes), f"{NAME}.scale": ("F16", scale)}
    write_tensors(tmp_path / "q.safetensors", tensors)
    write_tensors(tmp_path / "c.safetensors", {NAME: ("BF16", weights)})
    quant, source = (read_safetensors(tmp_path / f"{file}.safetensors") for file in "qc")
    found = list(compare_matrices([Matrix(name=NAME, quant=quant, checkpoint=source)]))
    expected = {"nothing": [], "code": [f"{NAME}.int8"], "scale": [f"{NAME}.scale"]}[change]
    assert expected == [one.tensor for one in found]


def test_memory_does_not_grow_with_the_matrix(tmp_path: Path) -> None:
    """Ten million weights are compared in less than 64 MB, and every byte that is read is counted."""
    shape, counted = (2048, 5120), list[int]()
    specs: dict[str, tuple[str, tuple[int, ...]]] = {
        f"{NAME}.lut": ("F16", (16, 1)),
        f"{NAME}.idx": ("U8", shape),
        f"{NAME}.scale": ("F16", shape[:1]),
    }
    for file, arrays in (("q", specs), ("c", {NAME: ("BF16", shape)})):
        with SafetensorsWriter(tmp_path / f"{file}.safetensors", arrays, {}) as out:
            for name in arrays:
                out.view(name)
    quant, source = (read_safetensors(tmp_path / f"{file}.safetensors") for file in "qc")
    tracemalloc.start()
    list(compare_matrices([Matrix(name=NAME, quant=quant, checkpoint=source)], note=counted.append))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
    assert 3 * 2048 * 5120 == sum(counted)
