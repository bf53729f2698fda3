"""One small synthetic release for all tests of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.synthetic import Release, make_release


@pytest.fixture(scope="session")
def small_release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(tmp_path_factory.mktemp("scratch"), "small", workers=2)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[2]
