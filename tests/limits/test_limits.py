"""Each reader at its bound and just over it: how it ends, and the most memory that it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack.limits import BOUNDS
from tests.limits.inputs import CASES, SAMPLE

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
# The interpreter with numpy and this tool's readers.
BASE = 64 * MIB
PEAK = 256 * MIB
# Four million tokens; 250,000 tokens of a vocabulary and as many merges are 1.5 million.
TOKENIZER_PEAK = 640 * MIB
SECONDS = 120


def measured(path: Path, reader: str) -> dict[str, object]:
    """Return the code that a reader ended in and its peak of memory, from a process of its own."""
    command = [sys.executable, "-m", "tests.limits.child", str(path), reader]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment, timeout=SECONDS)
    return dict(json.loads(done.stdout))


def look(tmp_path: Path, name: str) -> str | None:
    """Return what is wrong with a case, None if it ends as it should within its memory."""
    case = CASES[name]
    path = tmp_path / ("manifest.json" if case.reader == "manifest" else "tokenizer.json")
    path.write_bytes(case.make())
    found = measured(path, case.reader)
    peak = TOKENIZER_PEAK if case.reader == "tokenizer" else PEAK
    ends = found["code"] in (case.codes or ("",))
    if ends and int(str(found["peak"])) <= BASE + peak:
        return None
    return f"{name}: {found['code'] or 'a value'} at {int(str(found['peak'])) // MIB} MiB"


def test_readers_at_their_bounds(tmp_path: Path, whole: bool) -> None:
    """A value at the bound, the bound's own code over it, 256 MiB at most; a tokenizer needs more."""
    names = CASES if whole else SAMPLE
    assert [] == [fault for name in names if (fault := look(tmp_path, name)) is not None]


def test_every_bound_is_a_number_of_its_own() -> None:
    """The table has no row twice, and no bound that bounds nothing."""
    rows = [(bound.of, bound.what) for bound in BOUNDS]
    assert len(rows) == len(set(rows))
    assert [] == [bound for bound in BOUNDS if not 0 < bound.value < 1 << 62]


@pytest.mark.parametrize("name", SAMPLE)
def test_the_sample_is_of_the_cases(name: str) -> None:
    """What is sampled is there."""
    assert name in CASES
