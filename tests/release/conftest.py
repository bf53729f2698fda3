"""What the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.miniature.scene import Scene
from tests.release.scenes import build_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Build the miniature's good pair; it is never changed."""
    work: Path = tmp_path_factory.mktemp("scene")
    return build_scene(work)
