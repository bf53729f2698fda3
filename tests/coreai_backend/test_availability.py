"""Where Core AI is missing, the room says so and nothing else breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import forgepack
from forgepack.coreai_backend.availability import PINNED_VERSION, installed_version, require_coreai
from forgepack.errors import PlatformError

ROOT = Path(forgepack.__file__).parent.parent


def test_installed_version_is_the_pinned_one() -> None:
    """The version under test is the version that was measured."""
    assert installed_version() == PINNED_VERSION


def test_missing_package_is_a_platform_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without coreai-core the error has exit code 7 and says what to install."""
    monkeypatch.setitem(sys.modules, "coreai", None)
    with pytest.raises(PlatformError) as caught:
        require_coreai()
    assert caught.value.exit_code == 7
    assert caught.value.code == "coreai-missing"
    assert PINNED_VERSION in str(caught.value.expected)


@pytest.mark.parametrize("module", ["reader", "execute", "builder", "compare", "head_content", "target_assets"])
def test_importing_the_room_imports_nothing_heavy(module: str) -> None:
    """Only a call imports Core AI: --help and the plain depths stay fast and work anywhere."""
    code = (
        f"import sys, forgepack.coreai_backend.{module}; print([m for m in ('coreai', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
