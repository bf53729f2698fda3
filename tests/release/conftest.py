"""Built once a session: the miniature's good pair, a tiny pair and a bundle of it; copies for tests that spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.release.bundle.make import make_bundle
from tests.release.bench import bundle_inputs
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the good pair; it is never changed."""
    return build_pair(tmp_path_factory.mktemp("good") / "pair", tiny_profile())


@pytest.fixture(scope="session")
def released(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundle the good pair; the bundle is never changed."""
    out = tmp_path_factory.mktemp("released") / "bundle"
    make_bundle(bundle_inputs(base), out, profile=tiny_profile())
    return out


@pytest.fixture
def bundle(released: Path, tmp_path: Path) -> Path:
    """Return a copy of the good bundle, to be spoiled."""
    return Path(shutil.copytree(released, tmp_path / "bundle"))


@pytest.fixture
def bare(bundle: Path) -> Path:
    """Return a copy of the good bundle as Forge's own helper downloads it: without our two files."""
    (bundle / "forgepack.json").unlink()
    (bundle / "SHA256SUMS").unlink()
    return bundle
