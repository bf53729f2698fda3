"""Hessian sums and quadratic forms, in tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, open_pool
from forgepack.quantize import hessian
from forgepack.quantize.calibrate import panels
from forgepack.quantize.hessian import new_gram, quadratic, squared_outputs
from tests.quantize.naive import correlated_rows


@pytest.fixture
def pool() -> Iterator[Pool]:
    with open_pool(2) as opened:
        yield opened


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hessian, "TILE", 16)
    monkeypatch.setattr(hessian, "_ROWS", 10)


def test_sum_equals_float64(small_tiles: None, pool: Pool) -> None:
    """Tiles of several panels add up to XᵀX, upper and lower half alike."""
    rows = correlated_rows(np.random.default_rng(0), 70, 37)
    gram = new_gram(37)
    for part in (rows[:33], rows[33:]):
        gram.add(part, pool)
    gram.mirror(pool, "w")
    wide = rows.astype(np.float64)
    scale = np.sqrt(np.outer(np.diagonal(gram.total), np.diagonal(gram.total)))
    assert float(np.abs((gram.total - wide.T @ wide) / scale).max()) < 1e-6
    assert np.array_equal(gram.total, gram.total.T)
    assert gram.rows == 70


def test_quadratic_form_reads_the_upper_half_alone(small_tiles: None, pool: Pool) -> None:
    """d·H·dᵀ of each row is right even when the lower tiles hold other things."""
    rng = np.random.default_rng(1)
    rows, d = correlated_rows(rng, 60, 45), rng.standard_normal((21, 45)).astype(np.float32)
    H = rows.astype(np.float64).T @ rows.astype(np.float64)
    expected = np.einsum("ri,ij,rj->r", d.astype(np.float64), H, d.astype(np.float64))
    for start in range(16, 45, 16):
        H[start : start + 16, :start] = np.nan
    np.testing.assert_allclose(quadratic(d, H, pool), expected, rtol=2e-5)


def test_squared_outputs_over_panels(small_tiles: None, pool: Pool) -> None:
    """‖Wx‖² is summed over all rows of all panels."""
    rng = np.random.default_rng(2)
    weight, rows = rng.standard_normal((19, 12)).astype(np.float32), rng.standard_normal((40, 12)).astype(np.float32)
    expected = float(np.square(rows @ weight.T, dtype=np.float64).sum())
    assert squared_outputs(weight, [rows[:7], rows[7:]], pool) == pytest.approx(expected, rel=1e-6)


def test_overflow_is_named(pool: Pool) -> None:
    """Activations whose squares overflow float32 name their matrix and column."""
    gram = new_gram(3)
    rows = np.ones((2, 3), np.float32)
    rows[0, 2] = 1e30
    with np.errstate(over="ignore"):
        gram.add(rows, pool)
    with pytest.raises(NumericsError, match=r"fc\.weight: column 2"):
        gram.mirror(pool, "fc.weight")


def test_panels_join_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several arrays come out once, in order, in float32 panels of bounded size."""
    from forgepack.quantize import calibrate

    monkeypatch.setattr(calibrate, "PANEL", 8)
    arrays = [np.arange(n, dtype=np.float16)[:, None] + 100 * k for k, n in enumerate((3, 0, 21, 4, 5))]
    out = list(panels(arrays))
    assert np.array_equal(np.concatenate(arrays), np.concatenate(out))
    assert all(len(p) <= 8 and p.dtype == np.float32 for p in out)
