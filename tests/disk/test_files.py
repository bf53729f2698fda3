"""Single files: whole or not at all, under names that nobody can plant, with what a file system lacks."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack.disk.files import PREFIX, new_file, write_file
from forgepack.disk.outputs import write_output
from forgepack.errors import OutputError
from tests.disk.shim import shim_environment

ROOT = Path(__file__).parents[2]


def test_a_link_gives_way_and_is_not_followed(tmp_path: Path) -> None:
    """Neither a link in the file's place nor one of a guessed temporary name leads a write elsewhere."""
    (tmp_path / "victim").write_text("kept")
    for name in ("out", "out.tmp", ".out.part", "new"):
        (tmp_path / name).symlink_to("victim")
    write_file(tmp_path / "out", b"data")
    with new_file(tmp_path / "new") as handle:
        handle.write(b"data")
    assert (b"data", b"data") == ((tmp_path / "out").read_bytes(), (tmp_path / "new").read_bytes())
    assert "kept" == (tmp_path / "victim").read_text()


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """Whatever refuses, the old file stays and nothing lies beside it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inside").touch()
    with pytest.raises(OutputError):
        write_file(tmp_path / "folder", b"data")
    with pytest.raises(OutputError, match="written"):
        write_file(tmp_path / ("x" * 300), b"data")
    assert ["folder"] == [path.name for path in tmp_path.iterdir()]


def test_what_a_dead_writer_left_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    """A locked temporary file is its writer's; an unlocked one is nobody's; a link or a folder is not ours."""
    dead, living = tmp_path / f"{PREFIX}dead", tmp_path / f"{PREFIX}living"
    dead.write_text("half")
    (tmp_path / f"{PREFIX}link").symlink_to("mine")
    (tmp_path / "mine").write_text("kept")
    with living.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        write_file(tmp_path / "out", b"data")
    assert {"mine", "out", living.name, f"{PREFIX}link"} == {path.name for path in tmp_path.iterdir()}
    assert "kept" == (tmp_path / "mine").read_text()


def test_pipes_and_descriptors_are_written_through(tmp_path: Path) -> None:
    """A pipe, a link to it and an open descriptor get the bytes and stay what they are."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_output(tmp_path / name, b"data")
        assert b"data" == os.read(reader, 100)
        os.close(reader)
    assert pipe.is_fifo()
    with (tmp_path / "log").open("wb", buffering=0) as handle:
        handle.write(b"before ")
        write_output(Path(f"/dev/fd/{handle.fileno()}"), b"after")
    assert b"before after" == (tmp_path / "log").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device")
def test_devices_are_written_through(tmp_path: Path) -> None:
    """A private null device stays one."""
    try:
        os.mknod(tmp_path / "null", 0o020666, os.makedev(1, 3))
        write_output(tmp_path / "null", b"")
    except (PermissionError, OutputError):
        pytest.skip("devices can't be made or opened here")
    write_output(tmp_path / "null", b"data")
    assert (tmp_path / "null").is_char_device()


WRITE = """
import sys
from pathlib import Path
from forgepack.disk.files import write_file
from forgepack.disk.folders import copy_folder, locked_work, publish, remove_work
from forgepack.errors import ForgepackError
root = Path(sys.argv[1])
write_file(root / "file", b"data")
try:
    with locked_work(root / "out", force=True) as work:
        publish(copy_folder(root / "source", work / "copy"), root / "out")
        remove_work(work)
except ForgepackError as err:
    print(err)
    sys.exit(err.exit_code)
"""


def write_on(tmp_path: Path, **lacking: int) -> tuple[int, str]:
    """Write a file and a folder on a file system that lacks something; return the code and what was said."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_text("a")
    environment = {**os.environ, **shim_environment(**lacking)}
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("lacking", ["ENOLCK", "ENOSYS", "ENOTSUP"])
def test_a_file_system_without_locks_is_named(tmp_path: Path, lacking: str) -> None:
    """A folder needs its lock: exit 5 with place and cure; a single file is written all the same."""
    import errno

    code, text = write_on(tmp_path, FS_NO_LOCKS=getattr(errno, lacking))
    assert (5, True, True) == (code, "this file system has no locks" in text, ".out.work" in text), text
    assert b"data" == (tmp_path / "file").read_bytes()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lacking", ["EINVAL", "ENOTSUP"])
def test_a_folder_that_can_not_be_flushed_is_gone_on_with(tmp_path: Path, lacking: str) -> None:
    """SMB and FUSE flush no folder: the output is written, its files are flushed."""
    import errno

    assert (0, "") == write_on(tmp_path, FS_NO_FOLDER_FLUSH=getattr(errno, lacking))
    assert "a" == (tmp_path / "out/a").read_text()


def test_a_disk_that_flushes_no_folder_for_another_reason_is_told(tmp_path: Path) -> None:
    """An error of the disk is none of a file system that can't: exit 5."""
    import errno

    code, text = write_on(tmp_path, FS_NO_FOLDER_FLUSH=errno.EIO)
    assert (True, True) == (code != 0, "could not be written" in text), text
