"""GPTQ and its factor: against the textbook form, at every level of its blocking, and on degenerate Hessians."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, open_pool
from forgepack.quantize import factor as factor_module
from forgepack.quantize import gptq as gptq_module
from forgepack.quantize.factor import ascending_order, factorize
from forgepack.quantize.gptq import gptq
from forgepack.quantize.hessian import permute
from forgepack.quantize.lut import Lut4, fit_lut4
from tests.quantize.naive import correlated_rows, naive_gptq

F32 = npt.NDArray[np.float32]


@pytest.fixture
def pool() -> Iterator[Pool]:
    with open_pool(2) as opened:
        yield opened


def second_moment(rows: F32) -> npt.NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return wide.T @ wide / len(wide)


def run(weight: F32, hessian: npt.NDArray[np.float64], pool: Pool) -> tuple[npt.NDArray[np.uint8], float, Lut4]:
    """Return indices in natural column order, the weighted error that GPTQ reports (ridge left in), and the LUT."""
    lut = fit_lut4(weight, iterations=40, samples=65536, where="w")
    H = hessian.copy()
    order = ascending_order(H)
    permute(H, order)
    factor = factorize(H, damping=0.01, pool=pool, where="w")
    difference = np.ascontiguousarray(lut.normalise(weight)[:, order])
    rounded = gptq(difference, factor, lut, block=128, pool=pool)
    indices = np.empty_like(rounded.indices)
    indices[:, order] = rounded.indices
    return indices, float(rounded.loss.sum()), lut


@pytest.mark.parametrize(
    ("rows", "columns", "samples"),
    [(7, 5, 30), (20, 48, 200), (33, 150, 60), (9, 300, 900), (600, 40, 100)],
    ids=["tiny", "one level", "fewer rows than columns", "three levels", "two tasks"],
)
def test_indices_equal_the_textbook_form(rows: int, columns: int, samples: int, pool: Pool) -> None:
    """Whatever the blocking, nearly every index is that of column-by-column GPTQ in float64.

    Products in float32 may flip a value that lies at a boundary between two codes; one flip moves later columns.
    """
    rng = np.random.default_rng(rows)
    weight = rng.standard_normal((rows, columns)).astype(np.float32)
    H = second_moment(correlated_rows(rng, samples, columns))
    indices, _, lut = run(weight, H, pool)
    codes = lut.codebook.astype(np.float64)
    expected = naive_gptq(lut.normalise(weight).astype(np.float64), H, codes, damping=0.01)
    assert np.mean(np.any(indices != expected, axis=1)) < 0.02


def test_levels_of_blocking_do_not_change_the_result(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small outer blocks, inner blocks and row tasks give the same indices as one block for all."""
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((40, 200)).astype(np.float32)
    H = second_moment(correlated_rows(rng, 400, 200))
    whole, loss, _ = run(weight, H, pool)
    for name, size in (("OUTER", 64), ("INNER", 3), ("ROWS", 16)):
        monkeypatch.setattr(gptq_module, name, size)
    monkeypatch.setattr(factor_module, "BLOCK", 33)
    monkeypatch.setattr(factor_module, "ROWS", 48)
    split, split_loss, _ = run(weight, H, pool)
    assert np.mean(np.any(whole != split, axis=1)) < 0.03
    assert split_loss == pytest.approx(loss, rel=1e-3)


def test_loss_is_the_weighted_error(pool: Pool) -> None:
    """The loss that GPTQ sums up is d·(H + ridge)·dᵀ of what it leaves."""
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((30, 170)).astype(np.float32)
    H = second_moment(correlated_rows(rng, 100, 170))
    indices, loss, lut = run(weight, H, pool)
    d = lut.normalise(weight).astype(np.float64) - lut.codebook.astype(np.float64)[indices]
    damped = H + 0.01 * np.diagonal(H).mean() * np.eye(len(H))
    assert loss == pytest.approx(np.einsum("ri,ij,rj->", d, damped, d), rel=1e-5)


def test_gptq_beats_plain_rounding(pool: Pool) -> None:
    """On correlated rows the output error is well below that of rounding to the nearest code."""
    rng = np.random.default_rng(5)
    weight, rows = rng.standard_normal((64, 96)).astype(np.float32), correlated_rows(rng, 500, 96)
    indices, _, lut = run(weight, second_moment(rows), pool)
    normalised = lut.normalise(weight)
    plain = normalised.copy()
    lut.round(plain, pool)
    after = normalised - lut.codebook.astype(np.float32)[indices]
    assert np.linalg.norm(after @ rows.T) < 0.7 * np.linalg.norm(plain @ rows.T)


def test_workers_do_not_change_a_bit() -> None:
    """One, two and four threads give the same factor and the same indices."""
    rng = np.random.default_rng(6)
    weight, H = rng.standard_normal((1100, 130)).astype(np.float32), second_moment(correlated_rows(rng, 300, 130))
    found = []
    for workers in (1, 2, 4):
        with open_pool(workers) as pool:
            indices, loss, _ = run(weight, H, pool)
            found.append((indices.tobytes(), loss))
    assert found[0] == found[1] == found[2]


def test_order_is_ascending_and_ties_start_at_the_lower_column() -> None:
    """GPTQ starts at the last place, so of two equal columns the lower index stands last."""
    H = np.diag([2.0, 5.0, 2.0, 5.0, 0.0])
    assert [4, 2, 0, 3, 1] == ascending_order(H).tolist()


def test_permute_reorders_in_place() -> None:
    """The in-place permutation equals fancy indexing of rows and columns."""
    rng = np.random.default_rng(7)
    H = rng.standard_normal((23, 23))
    order = rng.permutation(23)
    expected = H[order][:, order]
    permute(H, order)
    assert np.array_equal(expected, H)


def test_factor_is_the_cholesky_factor_and_keeps_the_upper_half(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower triangle is LAPACK's factor of H + ridge; the strict upper one still holds H."""
    monkeypatch.setattr(factor_module, "BLOCK", 16)
    H = second_moment(correlated_rows(np.random.default_rng(8), 90, 50))
    kept = H.copy()
    factor = factorize(H, damping=0.01, pool=pool, where="w")
    expected = np.linalg.cholesky(kept + factor.ridge * np.eye(50))
    np.testing.assert_allclose(np.tril(factor.lower), expected, rtol=1e-9, atol=1e-12)
    assert np.array_equal(np.triu(kept, 1), np.triu(factor.lower, 1))
    assert factor.ridge == pytest.approx(0.01 * np.diagonal(kept).mean())


def test_dead_columns_are_rounded_plainly(pool: Pool) -> None:
    """A column that no row feeds keeps out of the mean diagonal and of all other columns, and is rounded plainly."""
    rng = np.random.default_rng(9)
    rows = correlated_rows(rng, 200, 40)
    rows[:, [3, 17]] = 0
    weight, H = rng.standard_normal((25, 40)).astype(np.float32), second_moment(rows)
    indices, _, lut = run(weight, H, pool)
    normalised = lut.normalise(weight)
    plain = lut.round(normalised.copy(), pool)
    assert np.array_equal(plain[:, [3, 17]], indices[:, [3, 17]])
    expected = naive_gptq(normalised.astype(np.float64), H, lut.codebook.astype(np.float64), damping=0.01)
    assert np.mean(np.any(indices != expected, axis=1)) <= 0.04


def test_all_columns_dead_is_plain_rounding(pool: Pool) -> None:
    """Rows of zeros alone leave nothing to weigh: every weight goes to its nearest code."""
    weight = np.random.default_rng(10).standard_normal((12, 30)).astype(np.float32)
    indices, _, lut = run(weight, np.zeros((30, 30)), pool)
    assert np.array_equal(lut.round(lut.normalise(weight), pool), indices)


def test_damping_is_raised_where_the_plain_one_fails(pool: Pool) -> None:
    """A slightly indefinite Hessian is factorized with ten times the damping, which is recorded."""
    H = np.diag(np.linspace(1.0, 2.0, 40))
    H[0, 1] = H[1, 0] = 1.06  # eigenvalue about -0.05: under 1% of the mean diagonal, not under 10%
    kept = H.copy()
    factor = factorize(H, damping=0.01, pool=pool, where="w")
    assert factor.damping == pytest.approx(0.1)
    expected = np.linalg.cholesky(kept + factor.ridge * np.eye(40))
    np.testing.assert_allclose(np.tril(factor.lower), expected, rtol=1e-9, atol=1e-12)


def test_an_indefinite_hessian_is_refused(pool: Pool) -> None:
    """Where even the whole mean diagonal does not help, the matrix is named."""
    H = np.eye(6)
    H[0, 1] = H[1, 0] = 9.0
    with pytest.raises(NumericsError, match=r"layers\.0\.mlp\.down_proj") as caught:
        factorize(H, damping=0.01, pool=pool, where="layers.0.mlp.down_proj")
    assert caught.value.code == "not-positive-definite"


def test_a_hessian_with_nan_is_refused(pool: Pool) -> None:
    """Not a number never passes as a pivot."""
    H = np.eye(4)
    H[2, 1] = H[1, 2] = np.nan
    with pytest.raises(NumericsError):
        factorize(H, damping=0.01, pool=pool, where="w")
