"""Synthetic pairs and the packages emitted from them, once a session."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.coreai_backend.reader import AssetReading, read_asset
from forgepack.emit.package import EmitResult, emit_package
from tests.emit.inputs import Pair, write_pair
from tests.emit.synthetic import MINI, ODD


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A pair, its package, and the package's asset read back."""

    pair: Pair
    result: EmitResult
    reading: AssetReading


def emit_pair(folder: pytest.TempPathFactory, geometry: dict[str, object]) -> Emitted:
    pair = write_pair(folder.mktemp("pair") / "pair", geometry)
    result = emit_package(pair.read(), pair.root / "drafter", profile=pair.profile)
    reading = read_asset(read_asset_files(result.asset), head=True)
    return Emitted(pair=pair, result=result, reading=reading)


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """Emit a package at the miniature's geometry."""
    return emit_pair(tmp_path_factory, MINI)


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """Emit a package whose every dimension differs, with head parts of unequal height."""
    return emit_pair(tmp_path_factory, ODD)
