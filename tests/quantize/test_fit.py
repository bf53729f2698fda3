"""Scales and codebooks fitted for GPTQ: optimal on small sets, weighted, exact where a row can be exact."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, open_pool
from forgepack.quantize.fit import FACTORS, choose_factors, fill_histogram, fit_weighted, optimal_codes, refine_codes
from forgepack.quantize.lut import CODES, Lut4, fit_lut4, row_scale

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@pytest.fixture
def pool() -> Iterator[Pool]:
    with open_pool(2) as opened:
        yield opened


def heavy(rows: int, columns: int, seed: int = 0) -> F32:
    rng = np.random.default_rng(seed)
    return (rng.standard_t(4, (rows, columns)) * np.exp(rng.standard_normal((rows, 1)))).astype(np.float32)


def error(weight: F32, lut: Lut4, importance: F64, pool: Pool) -> float:
    """Return Σ v·(W - Q)² of plain rounding."""
    left = lut.normalise(weight)
    lut.round(left, pool)
    return float((np.square(left * lut.scale.astype(np.float32)[:, None], dtype=np.float64) @ importance).sum())


def cost(values: F64, weights: F64, codes: F64) -> float:
    return float(weights @ np.square(values[:, None] - codes).min(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_codes_are_optimal(seed: int) -> None:
    """No partition of 20 weighted values into 16 runs has a smaller error than dynamic programming's."""
    rng = np.random.default_rng(seed)
    values, weights = np.sort(rng.standard_normal(20)), rng.uniform(0.1, 3, 20)
    best = np.inf
    for cuts in combinations(range(1, 20), CODES - 1):
        bounds = [0, *cuts, 20]
        means = [np.average(values[a:b], weights=weights[a:b]) for a, b in pairwise(bounds)]
        best = min(best, cost(values, weights, np.array(means)))
    assert cost(values, weights, optimal_codes(values, weights)) == pytest.approx(best, rel=1e-9)


def test_few_values_are_their_own_codes() -> None:
    """Up to 16 values are reproduced; what is left repeats the last one."""
    assert [1.0, 2.0, *[5.0] * 14] == optimal_codes(np.array([1.0, 2.0, 5.0]), np.ones(3)).tolist()


def test_refining_ends_at_a_fixed_point_no_worse() -> None:
    """Another iteration changes nothing, and the weighted error never grows."""
    rng = np.random.default_rng(3)
    values, weights = np.sort(rng.standard_t(3, 4000)), rng.uniform(0, 2, 4000)
    start = np.linspace(-3, 3, CODES)
    found = refine_codes(values, weights, start)
    assert cost(values, weights, found) < cost(values, weights, start)
    assert np.array_equal(found, refine_codes(values, weights, found))


def test_factors_are_the_best_of_all_29(pool: Pool) -> None:
    """The histogram's choice costs hardly more than that of trying each factor on every weight: 1%, 0.1% in all."""
    weight, importance = heavy(60, 400), np.random.default_rng(1).uniform(0.2, 4, 400)
    base, codes = row_scale(weight, "w"), np.linspace(-2.4, 2.4, CODES)
    chosen = choose_factors(fill_histogram(weight, base, importance, pool), base, codes, pool)
    errors = np.empty((len(FACTORS), len(weight)))
    for n, factor in enumerate(FACTORS):
        scale = (base.astype(np.float64) * factor).astype(np.float16).astype(np.float64)[:, None]
        left = np.abs(weight / scale - codes[:, None, None]).min(axis=0) * scale
        errors[n] = np.square(left) @ importance
    found = errors[chosen, np.arange(len(weight))]
    assert np.all(found <= 1.01 * errors.min(axis=0))
    assert float((found / errors.min(axis=0)).mean()) < 1.001
    assert (29, 1.0) == (len(FACTORS), FACTORS[0])


@pytest.mark.parametrize("seed", range(4))
def test_rounding_is_better_than_the_plain_recipes(seed: int, pool: Pool) -> None:
    """On heavy-tailed rows with unequal columns the weighted rounding error falls by a tenth or more."""
    weight, importance = heavy(48, 300, seed), np.random.default_rng(seed).lognormal(0, 1, 300)
    plain = fit_lut4(weight, iterations=40, samples=65536, where="w")
    fitted = fit_weighted(weight, importance, where="w", pool=pool)
    assert error(weight, fitted, importance, pool) < 0.9 * error(weight, plain, importance, pool)


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.floats(-1000, 1000, width=32),
    )
)
def test_any_matrix_gets_finite_ascending_parts(weight: F32) -> None:
    """Scales are positive and finite, codes finite and ascending, whatever the weights."""
    with open_pool(1) as pool:
        lut = fit_weighted(weight, np.ones(weight.shape[1]), where="w", pool=pool)
    assert np.isfinite(lut.codebook).all()
    assert np.all(np.diff(lut.codebook.astype(np.float64)) >= 0)
    assert np.isfinite(lut.scale).all()
    assert np.all(lut.scale > 0)


def test_constant_rows_are_exact(pool: Pool) -> None:
    """Rows that hold one magnitude alone are reproduced, their scales untouched."""
    weight = np.outer([0.5, -2.0, 0.25], np.ones(10)).astype(np.float32)
    lut = fit_weighted(weight, np.ones(10), where="w", pool=pool)
    assert error(weight, lut, np.ones(10), pool) == 0.0
    assert [0.5, 2.0, 0.25] == lut.scale.tolist()


def test_rows_of_zeros_come_back_as_nothing(pool: Pool) -> None:
    """A row with nothing in it, or less than float16 can hold, takes the least scale: no code makes it heard."""
    weight = heavy(4, 50)
    weight[1], weight[3] = 0, 1e-9
    lut = fit_weighted(weight, np.ones(50), where="w", pool=pool)
    assert [2.0**-24, 2.0**-24] == lut.scale[[1, 3]].tolist()
    assert np.abs(lut.codebook).max() * 2.0**-24 < 1e-6


def test_columns_that_count_nothing_do_not_move_the_codes(pool: Pool) -> None:
    """Weights of a column of importance 0 may be anything."""
    weight, importance = heavy(20, 40), np.ones(40)
    importance[7] = 0
    other = weight.copy()
    other[:, 7] *= -1  # the root mean squares stay
    found = [fit_weighted(w, importance, where="w", pool=pool) for w in (weight, other)]
    assert found[0].codebook.tobytes() == found[1].codebook.tobytes()
    assert found[0].scale.tobytes() == found[1].scale.tobytes()


def test_a_scale_near_the_top_of_float16_stays_finite(pool: Pool) -> None:
    """A factor that would take a scale to infinity is not chosen; a scale over the top is refused by row."""
    weight = np.full((2, 30), 60000.0, np.float32)
    weight[:, ::3] *= -1
    assert np.isfinite(fit_weighted(weight, np.ones(30), where="w", pool=pool).scale).all()
    with pytest.raises(NumericsError, match="w row 1"):
        fit_weighted(weight * np.array([[1], [2]], np.float32), np.ones(30), where="w", pool=pool)


def test_workers_do_not_change_a_bit() -> None:
    """Rows are binned in fixed spans."""
    weight, importance = heavy(700, 60), np.random.default_rng(2).uniform(0, 2, 60)
    found = set()
    for workers in (1, 3):
        with open_pool(workers) as pool:
            lut = fit_weighted(weight, importance, where="w", pool=pool)
            found.add(lut.codebook.tobytes() + lut.scale.tobytes())
    assert len(found) == 1
