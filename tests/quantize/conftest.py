"""The synthetic pair and its default quantization, made once for the package's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.profile import Profile
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from tests.synthetic import make_profile
from tests.synthetic_files import open_sources, write_pair


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the synthetic pair once; nothing changes it."""
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="package")
def profile() -> Profile:
    return make_profile()


@pytest.fixture
def sources(pair: Path, profile: Profile) -> Sources:
    return open_sources(pair, profile)


@pytest.fixture(scope="package")
def made(pair: Path, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quantize the pair once by the default recipe."""
    out = tmp_path_factory.mktemp("made") / "q"
    return quantize(open_sources(pair, profile), out, profile=profile, options=Options()).root
