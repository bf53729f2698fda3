"""Two bundles compared: whatever is refused in a spoiled one is a difference."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.release.diff.compare import diff_paths
from forgepack.release.inspect.inspection import inspect_path
from tests.release.bundle.breaches import Breach
from tests.release.bundle.test_demands import BREACHES


def test_equal_bundles_are_equal(released: Path, bundle: Path) -> None:
    """A copy differs in nothing, and is known for what it is."""
    found = diff_paths(released, bundle)
    assert (("bundle", "bundle"), 0) == (found.kinds, found.exit_code)
    told = inspect_path(bundle)
    assert ("bundle", ()) == (told.kind, told.faults)
    assert told.facts["components"].startswith("coreai ")


@pytest.mark.parametrize("breach", BREACHES, ids=[breach.name for breach in BREACHES])
def test_a_breach_is_a_difference(bare: Path, tmp_path: Path, breach: Breach) -> None:
    """What the verifier refuses in a release, a comparison with the good one shows."""
    spoiled = Path(shutil.copytree(bare, tmp_path / "spoiled", symlinks=True))
    breach.change(spoiled)
    found = diff_paths(bare, spoiled)
    assert found.differences
    assert found.rules is None
