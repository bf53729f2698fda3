"""Whole processes: exit codes, output, and the memory of a process tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.measure import median_wall, run_measured

CHILD = "import time; block = bytearray(64 << 20); block[::4096] = b'x' * (len(block) // 4096); time.sleep(0.5)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], check=True)"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="memory of a tree is read from /proc")
def test_anonymous_memory_of_a_grandchild_counts() -> None:
    """The peak is that of the tree, not of the process that was started."""
    usage = run_measured([sys.executable, "-c", PARENT])
    assert usage.code == 0
    assert usage.anonymous is not None
    assert usage.anonymous > 64 << 20
    assert usage.largest > 64 << 20


def test_a_failing_command_keeps_its_code_and_its_last_words() -> None:
    """Output of both streams is kept."""
    usage = run_measured(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"]
    )
    assert usage.code == 7
    assert {"out", "err"} == set(usage.output.split())


def test_cpu_time_is_the_childs() -> None:
    """User time comes from the command alone, and the JSON leaves its output out."""
    usage = run_measured([sys.executable, "-c", "sum(range(3_000_000))"])
    assert usage.user > 0
    assert "output" not in usage.as_json()


def test_repeated_runs_give_a_median() -> None:
    """The median lies between the best and the sum, and codes are kept."""
    times = median_wall([sys.executable, "-c", "pass"], repeats=3)
    assert 0 < times["best"] <= times["median"]
    assert times["code"] == 0
    assert times["repeats"] == 3
