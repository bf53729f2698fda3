"""Temporary folders: private, removed, and swept after a kill, never while their owner lives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.disk.temporary import MARK, PREFIX, sweep, temporary_folder
from forgepack.errors import OutputError

ROOT = Path(__file__).parents[2]
OWNER = """
import sys
from forgepack.disk.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "lowered").mkdir()
    (folder / "lowered/program.bin").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files of this test and its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def owner() -> subprocess.Popen[str]:
    """Start a process that holds a folder until its stdin ends."""
    command = [sys.executable, "-c", OWNER]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


@pytest.fixture
def holders(place: Path) -> Iterator[list[tuple[subprocess.Popen[str], Path]]]:
    """Return two living owners and their folders."""
    found = []
    for process in (owner(), owner()):
        assert process.stdout is not None
        found.append((process, Path(process.stdout.readline().strip())))
    yield found
    for process, _ in found:
        process.communicate()


def test_the_folder_is_removed_on_leaving(place: Path) -> None:
    """Nothing stays, and only this user could look in."""
    with temporary_folder() as folder:
        assert (0o700, True) == (folder.stat().st_mode & 0o777, folder.name.startswith(PREFIX))
        (folder / "file").write_bytes(b"x")
    assert [] == list(place.iterdir())


def test_a_killed_runs_folder_is_swept_and_a_living_ones_is_not(
    place: Path, holders: list[tuple[subprocess.Popen[str], Path]]
) -> None:
    """The lock ends with its process, however that ends."""
    (dead, left), (_, held) = holders
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    assert (left / "lowered/program.bin").is_file()
    with temporary_folder():
        assert (False, True) == (left.exists(), (held / "lowered/program.bin").is_file())


def test_what_is_not_ours_is_never_swept(place: Path) -> None:
    """Folders without the mark, links, files, other prefixes, and a mark that is a link or a pipe."""
    outside = place / "outside"
    outside.mkdir()
    (outside / MARK).touch()
    (place / f"{PREFIX}plain").mkdir()
    (place / f"{PREFIX}file").touch()
    (place / f"{PREFIX}link").symlink_to(outside)
    for kind in ("link", "pipe"):
        folder = place / f"{PREFIX}mark-{kind}"
        folder.mkdir()
        (folder / MARK).symlink_to(outside / MARK) if kind == "link" else os.mkfifo(folder / MARK)
    before = sorted(place.rglob("*"))
    sweep(place)
    # A pipe can be locked like any file, and stands in a folder of this user with our mark: it may go.
    kept = [path for path in before if "mark-pipe" not in str(path)]
    assert kept == [path for path in sorted(place.rglob("*")) if "mark-pipe" not in str(path)]


def test_what_a_run_killed_before_its_mark_left_goes_after_a_day(place: Path) -> None:
    """Empty, or with a mark on its way; younger ones may have an owner, and one with anything else in it stays."""
    held = {
        "empty000": (),
        "on_its_w": (f"{MARK}.new",),
        "thesis00": ("thesis",),
        "both0000": (f"{MARK}.new", "thesis"),
    }
    for age in ("old", "new"):
        for name, files in held.items():
            folder = place / f"{PREFIX}{name[:5]}{age}"
            folder.mkdir()
            for file in files:
                (folder / file).touch()
            if age == "old":
                os.utime(folder, (0, 0))
    (place / f"{PREFIX}kills-abcdefgh").mkdir()
    os.utime(place / f"{PREFIX}kills-abcdefgh", (0, 0))
    before = {path.name for path in place.iterdir()}
    sweep(place)
    gone = {f"{PREFIX}emptyold", f"{PREFIX}on_itold"}
    assert gone == before - {path.name for path in place.iterdir()}


def test_no_place_for_temporary_files_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the variable's name, what was tried, and the cure: exit 5."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    with pytest.raises(OutputError) as caught, temporary_folder():
        pass
    assert (5, "temporary", True) == (caught.value.exit_code, caught.value.code, "TMPDIR" in str(caught.value.found))


def test_every_temporary_folder_is_one_of_these() -> None:
    """No other module makes one: a kill would leave it for ever. A scratch folder is in its output's work folder."""
    making = re.compile(r"tempfile\.(TemporaryDirectory|mkdtemp|mkstemp|NamedTemporaryFile)")
    found = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("forgepack/**/*.py") if making.search(p.read_text())}
    assert found == {"forgepack/disk/temporary.py", "forgepack/disk/folders.py"}
