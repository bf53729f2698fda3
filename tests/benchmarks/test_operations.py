"""Operations counted from geometry and traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.operations import count_operations
from benchmarks.scales import make_scale
from forgepack.geometry import Geometry, lut_matrices
from forgepack.profile import load_profile
from forgepack.quantize.steps import Rows

# 32 sequences of 256 new tokens: about 2,500 blocks of 8 rows, 11,200 context rows.
ROWS = Rows(context=11_200, block=20_160, held_out_context=0, held_out_block=0)


@pytest.mark.parametrize(
    ("phase", "published"),
    [("hessians", 5e13), ("forward", 6.6e13), ("gptq", 1.6e13), ("factorization", 1.45e13)],
)
def test_the_releases_counts_are_those_of_the_plan(phase: str, published: float) -> None:
    """At full size the counts agree with those worked out by hand; one factorization, no inverse, is half of 3e13."""
    assert count_operations(load_profile().geometry, ROWS)[phase] == pytest.approx(published, rel=0.12)


def test_hessians_count_half_a_product_for_each_group_of_rows() -> None:
    """One layer, counted one by one."""
    g = replace(make_scale("small").profile.geometry, layers=1)
    rows = Rows(context=10, block=16, held_out_context=0, held_out_block=0)
    widths = [
        (10, g.features),
        (10, g.hidden),  # the fused context's share of k and v
        (16, g.hidden),  # q, and the other share of k and v
        (16, g.query_width),
        (16, g.hidden),  # gate and up
        (16, g.intermediate),
    ]
    assert sum(n * width**2 for n, width in widths) == count_operations(g, rows)["hessians"]


def test_what_the_report_adds_stays_near_4e13() -> None:
    """At full size all errors of the report together cost about what the Hessians cost."""
    rows = Rows(context=11_226, block=20_160, held_out_context=2_676, held_out_block=5_440)
    counts = count_operations(load_profile().geometry, rows)
    errors = sum(counts[name] for name in ("calibration_errors", "held_out", "int8_errors"))
    assert errors < 4.8e13


def test_held_out_errors_take_the_cheaper_way() -> None:
    """Few rows are multiplied, many summed up first: no count exceeds either way for all matrices."""
    g = make_scale("small").profile.geometry
    few = count_operations(g, Rows(context=0, block=0, held_out_context=1, held_out_block=1))["held_out"]
    joined = sum(m * n for name, (m, n) in lut_matrices(g).items() if "k_proj" in name or "v_proj" in name)
    assert 4 * (sum(m * n for m, n in lut_matrices(g).values()) + joined) == few
    many = Rows(context=0, block=0, held_out_context=10**6, held_out_block=10**6)
    grams = 10**6 * (g.features**2 + (4 * g.hidden**2 + g.query_width**2 + g.intermediate**2) * g.layers)
    forms = 2 * sum(m * n**2 for m, n in lut_matrices(g).values())
    assert grams + forms == count_operations(g, many)["held_out"]


def test_held_out_rows_cost_nothing_where_there_are_none() -> None:
    """Without held-out rows their phase is empty, and GPTQ does not depend on rows."""
    g: Geometry = make_scale("small").profile.geometry
    without = count_operations(g, Rows(context=1, block=1, held_out_context=0, held_out_block=0))
    assert without["held_out"] == 0
    assert sum(m * n * n for m, n in lut_matrices(g).values()) == without["gptq"]
