"""A run that is killed or disturbed leaves the old state; the next one removes its traces, its bytes the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.torture import emit_victim, torture
from forgepack.emit.package import Progress, emit_package
from forgepack.errors import ForgepackError
from tests.emit.conftest import Emitted
from tests.emit.inputs import Pair, profile_json, write_quant
from tests.emit.synthetic import ODD
from tests.emit.test_package import EMIT, ROOT, put_old_package, tree


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


def test_kills_at_random_moments_leave_nothing_half(odd: Emitted, tmp_path: Path) -> None:
    """A sample of ``make torture`` on a synthetic pair; the older package was made of another calibration."""
    for name in ("checkpoint", "target", "quant"):
        shutil.copytree(odd.pair.root / name, tmp_path / "pair" / name)
    older = Pair(root=tmp_path / "pair", profile=odd.pair.profile, weights=odd.pair.weights)
    write_quant(older, recipe__mask_scale={"calibration": 0.65, "deployment": 0.7})
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(profile_json(ODD)))
    victim = emit_victim(
        odd.pair.quant,
        older.quant,
        checkpoint=odd.pair.checkpoint,
        target=odd.pair.target,
        profile=str(profile),
    )
    (tmp_path / "t").mkdir()
    outcome = torture(victim, tmp_path / "t", rounds=6, seed=1)
    assert ([], 6) == (outcome.faults, outcome.kills)


CHANGED = [
    ("quant/drafter_quant.safetensors", "size"),
    ("quant/drafter_quant.safetensors", "size and time"),
    ("checkpoint/model.safetensors", "size and time"),
    ("checkpoint/NOTICE", "size and time"),
    ("checkpoint/NOTICE", "nothing"),
    ("target/model/embed_tokens_fp16.npy", "size and time"),
    ("target/export/mix25_synthetic/lm_head.safetensors", "size and time"),
    ("target/export/mix25_synthetic/lm_head.safetensors", "nothing"),
]


@pytest.mark.parametrize("step", ["compute constants", "write files"])
@pytest.mark.parametrize(("changed", "kept"), CHANGED)
def test_an_input_that_changes_while_it_is_read_publishes_nothing(
    odd: Emitted, tmp_path: Path, changed: str, kept: str, step: str
) -> None:
    """Rewritten, replaced under its old time, or removed, while judged or after: code 4, the old output stays."""
    shutil.copytree(odd.pair.root, tmp_path / "pair", ignore=shutil.ignore_patterns("drafter"))
    pair = Pair(root=tmp_path / "pair", profile=odd.pair.profile, weights=odd.pair.weights)
    path, out = pair.root / changed, tmp_path / "d"
    touched: list[Progress] = []
    before = put_old_package(odd.result.root, out)

    def disturb(now: Progress) -> None:
        if now.step == step and not touched:
            touched.append(now)
            status, data = path.stat(), path.read_bytes()
            path.unlink()
            if kept != "nothing":
                path.write_bytes(data[:-1] + b"x")
            if kept == "size and time":
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(ForgepackError) as caught:
        emit_package(pair.read(), out, profile=pair.profile, force=True, report=disturb)
    assert (4, True) == (caught.value.exit_code, changed in str(caught.value.where)), caught.value
    assert tree(out) == before
    assert ["d", "pair"] == sorted(path.name for path in tmp_path.iterdir())
