"""emit where the disk is full, read-only or not one's own: the old package or the new one, exit code 5."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.cli.main import run
from forgepack.coreai_backend.constants import payload_bytes
from forgepack.emit.table import constant_table
from tests.emit.conftest import Emitted
from tests.emit.inputs import Pair, profile_json
from tests.emit.synthetic import ODD
from tests.emit.test_package import ROOT, put_old_package, tree
from tests.small_disk import UNASKED, SmallDisk, small_disk

PAGE = 4096

# The first run loads every module while the interpreter's own files can still be read.
DROPPED = """
import os, sys
from forgepack.cli.main import run
split = sys.argv.index("--")
assert run(sys.argv[1:split]) == 0
os.setuid(65534)
sys.exit(run(sys.argv[split + 1 :]))
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    path.write_text(json.dumps(profile_json(ODD)))
    return path


def arguments(pair: Pair, profile: Path, out: Path) -> list[str]:
    named = ["--checkpoint", pair.checkpoint, "--target", pair.target, "--out", out, "--profile", profile]
    return ["emit", *map(str, [pair.quant, *named]), "--force"]


def emit_on(disk: SmallDisk, pair: Pair, profile: Path) -> tuple[int, str]:
    """Emit on a disk whose room is taken by others once it was asked for."""
    line = [sys.executable, "-c", UNASKED, *arguments(pair, profile, disk.folder / "d")]
    done = disk.run(line, cwd=ROOT)
    return done.returncode, done.stderr


def put_old(disk: SmallDisk, made: Path) -> dict[str, bytes]:
    return put_old_package(made, disk.view / "d")


def free_sizes(odd: Emitted) -> Iterator[int]:
    """Yield ever larger sizes: too small for the constants, the asset, the files beside it, and at last enough."""
    table = constant_table(odd.pair.profile.geometry, odd.pair.profile.recipe).values()
    constants = sum(-(-payload_bytes(spec.dtype, spec.shape) // PAGE) * PAGE for spec in table)
    yield from (PAGE, constants // 2, constants + PAGE, constants + odd.result.asset_bytes // 2)
    yield from range(constants + odd.result.asset_bytes, 2 * constants, 5 * PAGE)


def test_a_full_disk_keeps_the_old_package(odd: Emitted, profile: Path, tmp_path: Path) -> None:
    """On ever larger disks: code 5, the old package and nothing beside it, until the whole new one fits."""
    refused = ""
    with small_disk(tmp_path / "disk") as disk:
        before = put_old(disk, odd.result.root)
        for free in free_sizes(odd):
            disk.leave_free(free)
            code, err = emit_on(disk, odd.pair, profile)
            assert ["d"] == [path.name for path in disk.view.iterdir()]
            if code == 0:
                break
            assert (5, True) == (code, "No space left on device" in err), err
            assert before == tree(disk.view / "d")
            refused += err
        assert tree(odd.result.root) == tree(disk.view / "d")
    for place in ("/constants.bin", "/dflash2_lut4_gptq.aimodel", "/dflash2_lut4_gptq.json"):
        assert place in refused, refused


def test_a_read_only_disk_ends_in_code_5(odd: Emitted, profile: Path, tmp_path: Path) -> None:
    """Where not even root may write, the old package stays."""
    with small_disk(tmp_path / "disk") as disk:
        before = put_old(disk, odd.result.root)
        disk.freeze()
        code, err = emit_on(disk, odd.pair, profile)
        assert (5, True) == (code, "Read-only file system" in err), err
        assert before == tree(disk.view / "d")


@pytest.mark.skipif(os.geteuid() != 0, reason="drops root's rights in a child")
def test_an_unwritable_parent_ends_in_code_5(odd: Emitted, profile: Path) -> None:
    """Without the right to write beside the output nothing is begun."""
    with tempfile.TemporaryDirectory() as name:  # pytest keeps its own folders closed to other users
        root = Path(name)
        root.chmod(0o755)
        shutil.copy(profile, root)
        shutil.copytree(odd.pair.root, root / "pair", ignore=shutil.ignore_patterns("drafter"))
        pair = Pair(root=root / "pair", profile=odd.pair.profile, weights=odd.pair.weights)
        folder = root / "read-only"
        folder.mkdir(mode=0o555)
        lines = [arguments(pair, root / "profile.json", out) for out in (root / "as-root", folder / "d")]
        command = [sys.executable, "-c", DROPPED, *lines[0], "--", *lines[1]]
        child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert child.returncode == 5, child.stderr
        assert [] == list(folder.iterdir())


def test_the_command_emits_this_pair(odd: Emitted, profile: Path, tmp_path: Path) -> None:
    """With room and rights the same command line succeeds: the refusals above are the disk's alone."""
    assert run(arguments(odd.pair, profile, tmp_path / "d")) == 0
    assert tree(odd.result.root) == tree(tmp_path / "d")
