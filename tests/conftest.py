"""What tests of several rooms share: the miniature's good pair, built once a session."""

from __future__ import annotations

import pytest

from forgepack.miniature.scene import Scene
from tests.release.scenes import build_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Build the miniature's good pair; it is never changed."""
    return build_scene(tmp_path_factory.mktemp("scene"))
