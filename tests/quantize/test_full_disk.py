"""quantize on a disk that is full or read-only: the old output or the new one, exit code 5, nothing half."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.cli.main import run
from forgepack.disk.places import work_folder
from forgepack.errors import ForgepackError
from tests.small_disk import UNASKED, SmallDisk, small_disk
from tests.synthetic import GEOMETRY, profile_json
from tests.synthetic_files import write_pair

PAGE = 4096


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_pair(tmp_path_factory.mktemp("pair"))
    (root / "profile.json").write_text(json.dumps(profile_json()))
    return root


def arguments(pair: Path, out: Path, *more: str) -> list[str]:
    named = ["--traces", pair / "bound.npz", "--target", pair / "target", "--out", out]
    return ["quantize", *map(str, [pair / "checkpoint", *named, "--profile", pair / "profile.json"]), *more]


def contents(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(root.iterdir())} if root.exists() else {}


def quantize_on(disk: SmallDisk, pair: Path, *more: str) -> tuple[int, str]:
    done = disk.run([sys.executable, "-c", UNASKED, *arguments(pair, disk.folder / "q", *more)], cwd=Path.cwd())
    return done.returncode, done.stderr


@pytest.mark.parametrize("old", ["an older output", "no output"])
def test_a_full_disk_keeps_what_was_there(pair: Path, tmp_path: Path, old: str) -> None:
    """On ever larger disks: code 5 and the old state, until the run fits, goes on, and ends in the same bytes.

    Whatever a failed run leaves beside its place is no output that the reader takes.
    """
    assert run(arguments(pair, tmp_path / "whole")) == 0
    free, refusals = PAGE, 0
    with small_disk(tmp_path / "disk") as disk:
        if old == "an older output":
            assert quantize_on(disk, pair, "--method", "rtn")[0] == 0
        before = contents(disk.view / "q")
        while True:
            disk.leave_free(free)
            code, err = quantize_on(disk, pair, "--force")
            if code == 0:
                break
            assert (5, True) == (code, "No space left on device" in err), err
            assert before == contents(disk.view / "q")
            with pytest.raises(ForgepackError):
                read_quant(work_folder(disk.view / "q") / "out", GEOMETRY)
            refusals, free = refusals + 1, 2 * free
        assert contents(tmp_path / "whole") == contents(disk.view / "q")
        assert ["q"] == [path.name for path in disk.view.iterdir()]
    assert refusals > 2


def test_a_read_only_disk_ends_in_code_5(pair: Path, tmp_path: Path) -> None:
    """Where not even root may write, the old output stays and can be read."""
    with small_disk(tmp_path / "disk") as disk:
        assert quantize_on(disk, pair, "--method", "rtn")[0] == 0
        before = contents(disk.view / "q")
        disk.freeze()
        code, err = quantize_on(disk, pair, "--force")
        assert (5, True) == (code, "Read-only file system" in err), err
        assert before == contents(disk.view / "q")
        assert read_quant(disk.view / "q", GEOMETRY).report.method == "rtn"
