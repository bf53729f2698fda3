"""The miniature's pair in a folder whose name has a space and a quote, as a runner's workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.miniature.scene import Scene


@pytest.fixture(scope="session")
def pairs(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build good/ and bad/, each with a drafter and its target; bad/ has an older head under the right name."""
    root = tmp_path_factory.mktemp("workspace") / "it's a place"
    for name in ("good", "bad"):
        shutil.copytree(scene.drafter, root / name / "my drafter")
        shutil.copytree(scene.miniature.target, root / name / "target", copy_function=shutil.copyfile)
    shutil.copyfile(scene.miniature.stale_head, root / "bad/target/export/mini_lut4/lm_head.safetensors")
    return root
