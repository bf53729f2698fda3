"""Assets that several tests read: authored once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.artifacts.aimodel import AssetFiles, read_asset_files
from forgepack.coreai_backend.reader import AssetReading, read_asset
from forgepack.coreai_backend.target_assets import HeadWeights, author_head_package
from tests.coreai_backend.heads import METADATA, make_head


@pytest.fixture(scope="session")
def head() -> HeadWeights:
    return make_head()


@pytest.fixture(scope="session")
def head_asset(head: HeadWeights, tmp_path_factory: pytest.TempPathFactory) -> AssetFiles:
    folder = tmp_path_factory.mktemp("assets") / "head_T8.aimodel"
    author_head_package(folder, head, parts=4, metadata=METADATA)
    return read_asset_files(folder)


@pytest.fixture(scope="session")
def head_reading(head_asset: AssetFiles) -> AssetReading:
    return read_asset(head_asset, head=True)


@pytest.fixture
def copy_of(head_asset: AssetFiles, tmp_path: Path) -> Path:
    """Return a copy of the head package, free to be damaged."""
    folder = tmp_path / "copy.aimodel"
    folder.mkdir()
    for path in head_asset.root.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder
