"""LUT4 and INT8: scales, codebooks and roundings, degenerate rows included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, open_pool
from forgepack.quantize.int8 import dequantize_int8, quantize_int8
from forgepack.quantize.lut import CODES, Lut4, draw_samples, fit_lut4, lloyd, row_scale

MATRICES = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.floats(-100, 100, width=32)
)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with open_pool(1) as opened:
        yield opened


def fit(weight: np.ndarray) -> Lut4:
    return fit_lut4(weight, iterations=40, samples=65536, where="w")


@given(MATRICES)
def test_every_weight_goes_to_its_nearest_code(weight: np.ndarray) -> None:
    """No code of the book is nearer than the chosen one, and the difference left is exact."""
    lut = fit(weight)
    normalised = lut.normalise(weight)
    left = normalised.copy()
    with open_pool(1) as pool:
        indices = lut.round(left, pool)
    codes = lut.codebook.astype(np.float32)
    assert np.array_equal(normalised - codes[indices], left)
    distance = np.abs(normalised[..., None].astype(np.float64) - codes)
    chosen = np.take_along_axis(distance, indices[..., None].astype(int), -1)[..., 0]
    np.testing.assert_allclose(chosen, distance.min(-1), rtol=1e-6, atol=1e-6)


@given(MATRICES)
def test_codebook_is_ascending_float16(weight: np.ndarray) -> None:
    """Sixteen ascending float16 codes come out of any finite matrix."""
    lut = fit(weight)
    assert (CODES,) == lut.codebook.shape
    assert np.all(np.diff(lut.codebook.astype(np.float64)) >= 0)
    assert np.isfinite(lut.codebook).all()
    assert np.isfinite(lut.scale).all()


def test_scale_is_the_rows_root_mean_square() -> None:
    """A row's scale is sqrt(mean W²) rounded to float16."""
    weight = np.array([[3.0, 4.0], [1e-3, 0.0]], np.float32)
    expected = np.array([np.sqrt(12.5), np.sqrt(5e-7)]).astype(np.float16)
    assert np.array_equal(expected, row_scale(weight, "w"))


def test_rows_of_zeros_have_scale_one(pool: Pool) -> None:
    """A zero row is exact, and does not divide by zero."""
    weight = np.zeros((3, 8), np.float32)
    weight[1] = np.linspace(-1, 1, 8)
    lut = fit(weight)
    assert [1.0, 1.0] == lut.scale[[0, 2]].tolist()
    indices = lut.round(lut.normalise(weight), pool)
    assert np.abs(lut.codebook.astype(np.float32)[indices[0]]).max() < 0.2


def test_a_scale_that_rounds_to_zero_becomes_one() -> None:
    """Weights under half of float16's least number count as zeros."""
    assert [1.0] == row_scale(np.full((1, 4), 1e-9, np.float32), "w").tolist()


def test_constant_rows_are_exact(pool: Pool) -> None:
    """Rows that hold one magnitude alone are reproduced up to the scale's rounding."""
    weight = np.outer([0.5, -2.0, 0.25], np.ones(10)).astype(np.float32)
    lut = fit(weight)
    left = lut.normalise(weight)
    lut.round(left, pool)
    assert float(np.abs(left).max()) == 0.0


def test_a_scale_over_float16_is_refused() -> None:
    """A row too loud for float16 is named."""
    with pytest.raises(NumericsError, match="row 1") as caught:
        row_scale(np.array([[1.0], [1e6]], np.float32), "w")
    assert caught.value.code == "scale-overflow"


def test_lloyd_finds_sixteen_clusters() -> None:
    """Samples at sixteen places are reproduced exactly."""
    places = np.arange(-8, 8, dtype=np.float32)
    assert places.tolist() == lloyd(np.repeat(places, 20), 40).tolist()


def test_lloyd_lowers_the_error_of_its_start() -> None:
    """Forty iterations beat the quantile start on a heavy-tailed distribution."""
    values = np.sort(np.random.default_rng(0).standard_t(3, 5000).astype(np.float32))

    def error(iterations: int) -> float:
        codes = lloyd(values, iterations).astype(np.float64)
        return float(np.min(np.abs(values[:, None] - codes), axis=1).__pow__(2).mean())

    assert error(40) < 0.8 * error(0)


def test_samples_are_all_values_of_a_small_matrix() -> None:
    """Below the limit nothing is left out."""
    weight = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    found = draw_samples(weight, np.ones(5, np.float16), 35)
    assert np.array_equal(np.sort(weight.reshape(-1)), found)


def test_samples_of_a_large_matrix_are_even_over_rows_and_columns() -> None:
    """The draw is not in step with the row length: every row and column is hit about equally often."""
    rows, columns, count = 64, 1024, 8192
    by_row = np.repeat(np.arange(rows, dtype=np.float32)[:, None], columns, 1)
    by_column = np.repeat(np.arange(columns, dtype=np.float32)[None], rows, 0)
    for values, kinds in ((by_row, rows), (by_column, columns)):
        drawn = draw_samples(values, np.ones(rows, np.float16), count)
        counts = np.bincount(drawn.astype(int), minlength=kinds)
        assert counts.min() > 0
        assert counts.max() <= 3 * count / kinds


@given(MATRICES)
def test_int8_error_is_at_most_half_a_step(weight: np.ndarray) -> None:
    """Every weight is within half its row's scale, but for the scale's own float16 rounding."""
    codes, scale = quantize_int8(weight, "w")
    assert int(np.abs(codes.astype(int)).max()) <= 127
    step = scale.astype(np.float64)[:, None]
    allowed = step * (0.5 + 127 * 2.0**-11) + 1e-7 * np.abs(weight) + 2.0**-24 * 64
    assert np.all(np.abs(weight - dequantize_int8(codes, scale).astype(np.float64)) <= allowed)


def test_int8_reaches_both_ends() -> None:
    """The largest magnitude of a row becomes ±127; a zero row has scale 1 and codes 0."""
    codes, scale = quantize_int8(np.array([[127.0, -127.0, 1.0], [0, 0, 0]], np.float32), "w")
    assert [[127, -127, 1], [0, 0, 0]] == codes.tolist()
    assert [1.0, 1.0] == scale.tolist()


def test_int8_scale_over_float16_is_refused() -> None:
    """A row whose step does not fit float16 is named."""
    with pytest.raises(NumericsError, match="row 0"):
        quantize_int8(np.array([[1e8]], np.float32), "w")
