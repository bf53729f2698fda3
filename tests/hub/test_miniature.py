"""The trained miniature, fetched from a loopback hub and adopted: what the demo does, through the real readers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.locked import require_locked
from forgepack.canonical import sha256_hex
from forgepack.errors import IdentityError
from forgepack.hub import AdoptRequest, adopt_checkpoint
from forgepack.profile import load_profile
from forgepack.resources import data_folder
from tests.hub.bench import OTHER, Bench
from tests.hub.loopback import LoopbackHub

PROFILE = load_profile("mini")
SERVED = data_folder("mini") / "checkpoint"


def test_the_miniature_is_fetched_and_read(tmp_path: Path) -> None:
    """Every byte of the fixture arrives, and the reader of checkpoints takes the folder."""
    with LoopbackHub.serve({PROFILE.hub.repo: {PROFILE.hub.commit: SERVED}}, storage=True) as hub:
        bench = Bench(hub, tmp_path / "out")
        report = bench.fetch(profile=PROFILE)
    for file in report.files:
        assert sha256_hex((SERVED / file.path).read_bytes()) == file.sha256
    checkpoint = read_checkpoint(bench.out, PROFILE)
    assert report.lock == checkpoint.lock == require_locked(bench.out, PROFILE, hashed=True)


def test_a_copy_of_the_miniature_is_adopted_to_the_same_bytes(tmp_path: Path) -> None:
    """But for the flag, the lock is the one that a fetch writes."""
    copy = tmp_path / "copy"
    shutil.copytree(SERVED, copy, ignore=shutil.ignore_patterns("*.lock.json"))
    with LoopbackHub.serve({PROFILE.hub.repo: {PROFILE.hub.commit: SERVED}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        fetched = bench.fetch(profile=PROFILE).lock
        adopted = adopt_checkpoint(AdoptRequest(profile=PROFILE, source=copy), effects=bench.effects).lock
    assert fetched is not None
    none = tuple(replace(file, evidence="none") for file in fetched.files)
    assert replace(fetched, adopted=True, files=none) == adopted


def test_a_moved_commit_of_the_miniature_is_refused_by_its_reader(tmp_path: Path) -> None:
    """The same bytes at another commit are not the pinned checkpoint."""
    with LoopbackHub.serve({PROFILE.hub.repo: {OTHER: SERVED}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        bench.fetch(profile=PROFILE, revision=OTHER)
    with pytest.raises(IdentityError) as caught:
        read_checkpoint(bench.out, PROFILE)
    assert "lock-commit" == caught.value.code
