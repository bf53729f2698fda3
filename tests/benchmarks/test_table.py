"""The table: ratios from counted operations and ceilings."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.table import phase_ratios, render

GEMM = {"wall": 100e9, "cpu": 100e9, "unit": "flop"}
DOUBLE = {"wall": 200e9, "cpu": 100e9, "unit": "flop"}
BYTES = {"wall": 1e9, "cpu": 1e9, "unit": "byte"}
USAGE = {"wall": 4.0, "user": 5.0, "system": 1.0, "resident": 2**30, "anonymous": None, "largest": 1, "code": 0}
OUTCOME: dict[str, Any] = {
    "scale": "small",
    "machine": {"cpus": 2, "workers": 2},
    "ceilings": {
        **{f"{kind}gemm_1": GEMM for kind in "sd"},
        **{f"{kind}gemm_2": DOUBLE for kind in "sd"},
        "sha256_1": BYTES,
        "sha256_2": {**BYTES, "wall": 2e9},
        "disk_write": BYTES,
    },
    "results": {
        "quantize": {
            **USAGE,
            "operations": {"gptq": 100e9, "hessians": 100e9},
            "phases": {
                "gptq": {"seconds": 1.0, "cpu": 2.0, "calls": 1, "anonymous": 5 * 10**8},
                "hessians": {"seconds": 0.5, "cpu": 1.0, "calls": 3, "anonymous": 0},
                "rest": {"seconds": 2.5, "cpu": 3.0, "calls": 1, "anonymous": 0},
            },
        },
        "emit": {**USAGE, "bytes": 2 * 10**9, "proof": 2.0},
        "verify": {"hash": {**USAGE, "bytes": {"package": 4 * 10**9, "target": 4 * 10**9}, "hashed": 8.0}},
        "startup": {"help": {"median": 0.123, "best": 0.1, "cpu": 0.09, "repeats": 3, "code": 0}},
    },
}


def test_a_phase_is_compared_with_its_ceiling() -> None:
    """CPU seconds with one thread's rate, wall seconds with all workers'; the whole with the sum of both phases."""
    ratios = phase_ratios(OUTCOME)
    assert ratios["gptq"]["of_ceiling"] == pytest.approx({"cpu": 0.5, "wall": 0.5})
    assert ratios["hessians"]["of_ceiling"] == pytest.approx({"cpu": 1.0, "wall": 1.0})
    assert ratios["all"]["of_ceiling"] == pytest.approx({"cpu": 2 / 6, "wall": 1 / 4})


def test_the_table_shows_every_part() -> None:
    """Ceilings, phases, commands with what hashing their bytes takes, and start-up times."""
    text = render(OUTCOME)
    assert "gptq                        1.0      2.0     1.00e+11               50%     50%" in text
    # 2 GB hashed at 2 GB/s and written at 1 GB/s; half of the four seconds proved the inputs
    assert "3.00 s with writing, x1.33; beside proving the inputs (2.00 s) x0.67" in text
    assert "by hashlib 8.00 s, x0.50; from memory 4.00 s, x1.00" in text
    assert "help                  123       100        90" in text


def test_steps_that_were_not_run_are_left_out() -> None:
    """A partial benchmark still renders."""
    text = render({**OUTCOME, "results": {"emit": OUTCOME["results"]["emit"]}})
    assert "quantize" not in text
    assert "start-up" not in text
