"""A sample of ``make torture``: killed at random moments, a command leaves the old state or the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.disk.cases import CASES, BuildCase, Case
from tests.disk.kills import kill
from tests.disk.shim import shim_library


@pytest.mark.parametrize("kind", CASES, ids=[kind.name for kind in CASES])
def test_nothing_half_is_left_and_nothing_lost(
    kind: type[Case], tmp_path: Path, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kill leaves a state that may stand there; the next run mends what it left, to the last byte."""
    if "FS_NO_EXCHANGE" in kind.environment and shim_library() is None:
        pytest.skip("no C compiler: the file system without exchange can't be made")
    if kind is BuildCase and not whole:
        pytest.skip("its steps are killed by themselves: a whole build takes seconds (--whole)")
    outcome = kill(kind(tmp_path), rounds=20 if whole else 4, seed=3)
    capsys.readouterr()
    assert ([], 20 if whole else 4) == (outcome.faults, outcome.places.total())
