"""Two bundles compared: a spoiled one is refused by a rule that its diff names."""

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
def test_what_a_diff_names_is_what_refuses(bare: Path, tmp_path: Path, breach: Breach) -> None:
    """Of the causes of a breach at least one is among the rules of the differences."""
    spoiled = Path(shutil.copytree(bare, tmp_path / "spoiled", symlinks=True))
    breach.change(spoiled)
    named = {rule for one in diff_paths(bare, spoiled).differences for rule in one.rules}
    assert named & set(breach.causes), (breach.causes, sorted(named))
