"""Kills, full disks, closed folders and second runs: the folder is complete or does not claim to be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.disk import locks
from forgepack.errors import HubError, OutputError, UnreadableError
from forgepack.hub import Progress
from forgepack.hub.staging import STAGING_NAME, hold_staging
from tests.hub.bench import FILES, OTHER, REPO, TAKEN, WEIGHTS, Bench, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub

CHECKOUT = Path(__file__).parents[2]


def start(bench: Bench, *options: str) -> subprocess.Popen[str]:
    """Start a fetch in a process of its own."""
    env = {**os.environ, "HF_HUB_DISABLE_XET": "1", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "tests.hub.child", bench.hub.url, str(bench.out), *options]
    return subprocess.Popen(command, env=env, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)


def finish(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Return a child's exit code and what it printed."""
    out, _ = child.communicate(timeout=60)
    return child.returncode, out


def test_a_kill_in_mid_transfer_costs_only_the_missing_bytes(bench: Bench) -> None:
    """SIGKILL after 100,000 bytes have landed: the next run asks for the rest, and for nothing that had landed."""
    landed, killed = threading.Event(), threading.Event()

    def hold() -> None:
        landed.set()
        killed.wait(30)

    bench.hub.fault("GET", "model.safetensors", cut=100_000, during=hold)
    child = start(bench)
    assert landed.wait(30)
    pause = threading.Event()
    while 100_000 not in bench.parts() and child.poll() is None:
        pause.wait(0.01)
    child.kill()
    assert -signal.SIGKILL == finish(child)[0]
    killed.set()
    assert not bench.complete()
    assert [] == [p.name for p in bench.out.iterdir() if p.name != STAGING_NAME]
    bench.hub.log.clear()
    report = bench.fetch()
    assert ["bytes=100000-"] == bench.ranges()
    assert 1 == len([p for p in bench.asked() if "/resolve/" in p])
    assert len(WEIGHTS) - 100_000 == sum(f.received for f in report.files)
    assert expected_tree() == tree_of(bench.out)


def test_a_kill_at_any_request_leaves_a_folder_that_the_next_run_completes(bench: Bench) -> None:
    """Killed at the listing, then at each request after it, until nothing is left to ask."""
    victim: list[subprocess.Popen[str]] = []
    for number in range(1, 40):
        count = iter(range(number, 0, -1))

        def strike(left: Iterator[int] = count) -> None:
            if next(left, 0) == 1:
                victim[-1].kill()
                victim[-1].wait(10)

        strike_get = bench.hub.fault("GET", "", before=strike, times=999)
        strike_head = bench.hub.fault("HEAD", "", before=strike, times=999)
        victim.append(start(bench))
        code, out = finish(victim[-1])
        strike_get.times = strike_head.times = 0
        if code == 0:
            break
        assert (-signal.SIGKILL, "") == (code, out)
        assert not bench.complete()
    assert "done" == out
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize("rename", [1, 3, len(TAKEN), len(TAKEN) + 1])
def test_a_kill_while_publishing_never_leaves_a_lock_over_missing_files(bench: Bench, rename: int) -> None:
    """Files move one by one, the lock last; the next run downloads nothing again."""
    assert -signal.SIGKILL == finish(start(bench, "--die-at-rename", str(rename)))[0]
    assert not bench.complete()
    bench.hub.log.clear()
    bench.fetch()
    assert [] == [p for p in bench.asked() if "/resolve/" in p]
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize("rename", [1, 2, 3])
def test_a_forced_change_of_commit_never_leaves_the_old_lock_over_new_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, rename: int
) -> None:
    """Stopped between two renames, the folder has no lock; the next forced run completes it."""
    files = {**FILES, "NOTICE": b"Another notice\n", "config.json": b'{"block_size": 4}\n'}
    bench.hub.add(REPO, OTHER, files)
    bench.fetch()
    move, left = Path.rename, rename

    def stop(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return move(self, target)

    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        bench.fetch(revision=OTHER, force=True)
    assert not bench.complete()
    bench.fetch(revision=OTHER, force=True)
    assert expected_tree(files, OTHER) == tree_of(bench.out)


def test_a_run_lock_that_vanishes_as_it_is_taken_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its former owner removes the file between our opening and our locking it."""
    take, calls = locks.lock_now, 0

    def vanish(fd: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            (tmp_path / STAGING_NAME / "lock").unlink()
        return take(fd)

    monkeypatch.setattr(locks, "lock_now", vanish)
    with hold_staging(tmp_path):
        assert 2 == calls
        with pytest.raises(OutputError), hold_staging(tmp_path):
            pass


def test_a_second_run_on_the_same_folder_is_refused_while_the_first_runs(bench: Bench) -> None:
    """It neither waits nor writes; afterwards it finds everything done."""
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(30)

    bench.hub.fault("GET", "model.safetensors", before=hold)
    child = start(bench)
    assert reached.wait(30)
    before = tree_of(bench.out)
    with pytest.raises(OutputError) as caught:
        bench.fetch()
    assert ("out-busy", 5) == (caught.value.code, caught.value.exit_code)
    assert before == tree_of(bench.out)
    go_on.set()
    assert (0, "done") == finish(child)
    assert {"verified"} == {f.action for f in bench.fetch().files}


def test_what_a_dead_run_left_is_reused_or_removed(bench: Bench) -> None:
    """A stale run lock is harmless, parts of other content vanish, and so does the staging folder at the end."""
    staging = bench.out / STAGING_NAME
    staging.mkdir(parents=True)
    (staging / "lock").write_text("")
    (staging / "0123456789ab-dead.part").write_bytes(bytes(99))
    (bench.out / ".forgepack-tmp-0123456789abcdef").write_bytes(b"half a lock")
    bench.fetch()
    assert expected_tree() == tree_of(bench.out)


def test_holding_a_folder_twice_is_refused_and_releasing_it_cleans_up(tmp_path: Path) -> None:
    """The folder that a run made and left empty is gone again."""
    out = tmp_path / "a" / "b"
    with hold_staging(out):
        with pytest.raises(OutputError), hold_staging(out):
            pass
        assert out.is_dir()
    assert not out.exists()
    with hold_staging(out) as staging:
        (staging.folder / "x.part").write_bytes(b"x")
        (staging.folder / "y.part").write_bytes(b"")
    assert {f"{STAGING_NAME}/lock": b"", f"{STAGING_NAME}/x.part": b"x"} == tree_of(out)


def test_a_link_in_place_of_the_staging_folder_is_refused(bench: Bench, tmp_path: Path) -> None:
    """A hostile folder can't lead the download elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    bench.out.mkdir()
    (bench.out / STAGING_NAME).symlink_to(elsewhere)
    with pytest.raises(OutputError):
        bench.fetch()
    assert [] == list(elsewhere.iterdir())


def test_an_output_that_is_a_file_or_holds_a_folder_of_a_files_name_is_refused(bench: Bench, tmp_path: Path) -> None:
    """Neither is replaced, --force or not."""
    (bench.out / "NOTICE").mkdir(parents=True)
    with pytest.raises(OutputError):
        bench.fetch(force=True)
    file = Bench(bench.hub, tmp_path / "file")
    file.out.write_bytes(b"mine")
    with pytest.raises(OutputError):
        file.fetch(force=True)
    assert b"mine" == file.out.read_bytes()


def test_a_file_that_may_not_grow_is_a_full_disk(bench: Bench) -> None:
    """The limit strikes in mid-file; what landed waits, and a run without the limit completes it."""
    assert (5, "disk-full") == finish(start(bench, "--limit", "65536"))
    assert not bench.complete()
    assert 65536 in bench.parts()
    bench.hub.log.clear()
    bench.fetch()
    assert ["bytes=65536-"] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 128 KiB, or skip where that is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=128k", "none", str(disk)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_in_mid_transfer_is_told_and_resumed(hub: LoopbackHub, small_disk: Path) -> None:
    """ENOSPC: exit 5, no lock; with more room the next run goes on."""
    bench = Bench(hub, small_disk / "out")
    with pytest.raises(OutputError) as caught:
        bench.fetch()
    assert ("disk-full", 5) == (caught.value.code, caught.value.exit_code)
    assert not bench.complete()
    waiting = max(bench.parts())
    assert 0 < waiting < len(WEIGHTS)
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    bench.hub.log.clear()
    bench.fetch()
    assert [f"bytes={waiting}-"] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that any user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="forgepack-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Drop root's rights for the time of a test: root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def closed(open_folder: Path, hub: LoopbackHub, tmp_path: Path) -> Bench:
    """Return a bench whose folder holds a complete checkpoint; all that a fetch imports is imported."""
    bench = Bench(hub, open_folder / "checkpoint")
    bench.fetch()
    Bench(hub, tmp_path / "warm").fetch()
    return bench


def test_a_complete_checkpoint_in_a_read_only_folder_verifies(closed: Bench, request: pytest.FixtureRequest) -> None:
    """Online and offline: comparing writes nothing, not even a run lock."""
    closed.out.chmod(0o555)
    request.getfixturevalue("ordinary_user")
    assert {"verified"} == {f.action for f in closed.fetch().files}
    assert {"verified"} == {f.action for f in closed.verify().files}


def test_a_folder_that_may_not_be_written_is_told(closed: Bench, request: pytest.FixtureRequest) -> None:
    """Exit 5, with the path."""
    (closed.out / "NOTICE").unlink()
    closed.out.chmod(0o555)
    request.getfixturevalue("ordinary_user")
    with pytest.raises(OutputError) as caught:
        closed.fetch()
    assert ("not-writable", 5) == (caught.value.code, caught.value.exit_code)
    assert str(closed.out) in str(caught.value.where)
    fresh = Bench(closed.hub, closed.out / "deeper" / "still")
    with pytest.raises(OutputError) as caught:
        fresh.fetch()
    assert "not-writable" == caught.value.code


def test_an_unreadable_file_is_not_taken_for_a_missing_one(closed: Bench, request: pytest.FixtureRequest) -> None:
    """Exit 4, and it is not overwritten."""
    (closed.out / "NOTICE").chmod(0)
    request.getfixturevalue("ordinary_user")
    with pytest.raises(UnreadableError):
        closed.fetch()
    with pytest.raises(UnreadableError):
        closed.verify()


def test_an_interrupt_keeps_what_landed(bench: Bench) -> None:
    """Ctrl-C in mid-transfer: the part stays, the folder is released, the next run resumes."""

    class Interrupted(Bench):
        def listen(self, progress: Progress) -> None:
            if progress.path == "model.safetensors" and progress.done > 20_000:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Interrupted(bench.hub, bench.out).fetch()
    waiting = max(bench.parts())
    assert waiting > 20_000
    bench.hub.log.clear()
    bench.fetch()
    assert [f"bytes={waiting}-"] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


def test_a_hub_error_after_landing_keeps_the_landed_files(bench: Bench) -> None:
    """Four files wait while the fifth fails; they are not asked for again."""
    bench.hub.fault("HEAD", "model.safetensors", status=403, times=9)
    with pytest.raises(HubError):
        bench.fetch()
    assert 4 == len(bench.parts())
    for fault in bench.hub._faults:
        fault.times = 0
    bench.hub.log.clear()
    bench.fetch()
    assert 1 == len([p for p in bench.asked() if "/resolve/" in p])
