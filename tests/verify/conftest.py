"""A tiny pair, emitted once a session, and a copy of it for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.target import locate_target, read_target
from forgepack.emit.inputs import EmitInputs
from forgepack.emit.package import emit_package
from forgepack.profile import Profile
from tests.verify.drafter_folder import write_drafter
from tests.verify.factory import (
    PROFILE,
    report_quant,
    tiny_profile,
    write_checkpoint,
    write_json,
    write_quant,
    write_target,
)
from tests.verify.whole_model import write_model_files


def build_pair(root: Path, profile: Profile, seed: int = 1, *, whole: bool = False) -> Path:
    """Write checkpoint, quant and target with random values and emit the drafter; ``whole`` has all of model/."""
    checkpoint = write_checkpoint(root / "checkpoint", profile, seed)
    quant = write_quant(root / "quant", profile, checkpoint)
    target = write_target(root / "target", profile, seed + 200)
    if whole:
        write_model_files(target / "model", profile)
    report_quant(quant, checkpoint, target, profile)
    inputs = EmitInputs(
        quant=read_quant(quant, profile.geometry),
        checkpoint=read_checkpoint(checkpoint, profile),
        target=read_target(locate_target(target)),
    )
    emit_package(inputs, root / "drafter", profile=profile)
    write_json(root / "profile.json", PROFILE)
    return root


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the good pair; it is never changed."""
    return build_pair(tmp_path_factory.mktemp("good") / "pair", tiny_profile())


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a second good pair of the same geometry and other weights."""
    return build_pair(tmp_path_factory.mktemp("other") / "pair", tiny_profile(), seed=7)


@pytest.fixture(scope="session")
def foreign(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the good pair with a drafter folder of other scripts: its sidecar binds nothing."""
    root = tmp_path_factory.mktemp("foreign") / "pair"
    shutil.copytree(base, root)
    shutil.rmtree(root / "drafter")
    write_drafter(root / "drafter", root, tiny_profile())
    return root


@pytest.fixture(scope="session")
def full_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a good pair whose target has all twelve files of model/."""
    return build_pair(tmp_path_factory.mktemp("whole") / "pair", tiny_profile(), whole=True)


@pytest.fixture
def pair(base: Path, tmp_path: Path) -> Path:
    """Return a copy of the good pair, to be sabotaged."""
    return Path(shutil.copytree(base, tmp_path / "pair"))
