"""Good pairs to mutate: the tests' tiny one, and the miniature's."""

from __future__ import annotations

import shutil
from pathlib import Path

from forgepack.miniature.data import PROFILE, find_miniature
from forgepack.miniature.scene import Scene
from forgepack.profile import load_profile
from tests.mutation.stage import Stage
from tests.verify.conftest import build_pair
from tests.verify.factory import lock_checkpoint, tiny_profile


def tiny_stage(root: Path) -> Stage:
    """Emit the tiny pair and read it once."""
    profile = tiny_profile()
    return Stage(build_pair(root, profile, whole=True), profile)


def miniature_stage(root: Path) -> Stage:
    """Quantize and emit the miniature and read it once."""
    profile, mini = load_profile(PROFILE), find_miniature()
    root.mkdir(parents=True)
    scene = Scene(profile=profile, miniature=mini, work=root)
    shutil.copytree(mini.checkpoint, scene.checkpoint)
    lock_checkpoint(scene.checkpoint, profile)
    scene.quantize(scene.quant, calibration=mini.calibration, held_out=mini.held_out)
    scene.emit(scene.drafter)
    shutil.copytree(mini.target, root / "target")
    return Stage(root, profile)
