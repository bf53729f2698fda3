"""A run that is killed leaves the old state; the next run removes its traces and gives the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forgepack.emit.package import emit_package
from tests.emit.conftest import Emitted
from tests.emit.test_package import EMIT, ROOT, tree


@pytest.mark.parametrize("sight", ["stage-*", "stage-*/constants.bin", "stage-*/package/*.aimodel/main.mlirb"])
def test_sigkill_leaves_the_old_state(odd: Emitted, tmp_path: Path, sight: str) -> None:
    """Killed as soon as a certain file is seen, the run has published nothing; a second run is unaffected."""
    out = tmp_path / "drafter"
    run = subprocess.Popen([sys.executable, "-c", EMIT, odd.pair.root, out], cwd=ROOT)
    while not list((tmp_path / ".drafter.work").glob(sight)) and run.poll() is None:
        time.sleep(0.001)
    run.send_signal(signal.SIGKILL)
    run.wait()
    if not out.exists():  # else the run was faster than the sight of its file
        emit_package(odd.pair.read(), out, profile=odd.pair.profile)
    assert tree(odd.result.root) == tree(out)
    assert [path.name for path in tmp_path.iterdir()] == ["drafter"]
