"""A child may do anything; its parent gets an answer or an error of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.coreai_backend.process import Child, DamagedAssetError, Limits
from forgepack.errors import NumericsError, PlatformError

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tests.coreai_backend.misbehaving_child"


@pytest.fixture
def child() -> Iterator[Child]:
    with Child(MODULE, subject="the asset", limits=Limits(memory=6 << 30)) as child:
        yield child


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("segfault", "it was ended by SIGSEGV"),
        ("exit", "it ended with exit code 3: last \ufffd words"),
        ("memory", "it ended with exit code 1: MemoryError"),
    ],
)
def test_any_end_of_the_child_is_a_damaged_asset(child: Child, kind: str, found: str) -> None:
    """Crashes, exits and exhausted memory are told with how the child ended and its last words."""
    with pytest.raises(DamagedAssetError) as caught:
        child.ask({"command": "do", "kind": kind}, seconds=60)
    assert caught.value.found == found
    assert (caught.value.where, caught.value.code) == ("the asset", "asset-crash")


def test_a_hanging_child_is_given_up(child: Child) -> None:
    """No answer in time is an error, and leaving the context ends the child."""
    with pytest.raises(DamagedAssetError) as caught:
        child.ask({"command": "do", "kind": "hang"}, seconds=0.2)
    assert caught.value.code == "asset-timeout"


def test_an_unreadable_answer_is_a_damaged_asset(child: Child) -> None:
    """An answer that is not JSON is not trusted."""
    with pytest.raises(DamagedAssetError) as caught:
        child.ask({"command": "do", "kind": "nonsense"}, seconds=60)
    assert "no readable answer" in str(caught.value.found)


def test_an_error_of_ours_crosses_the_pipe(child: Child) -> None:
    """A typed error raised in the child is raised in the parent with all its fields, and the child lives on."""
    with pytest.raises(NumericsError) as caught:
        child.ask({"command": "do", "kind": "ours"}, seconds=60)
    assert caught.value.lines() == ["a number is wrong", "  where: here", "  expected: 1", "  found: 2"]
    assert caught.value.code == "number"
    assert child.ask({"command": "do", "kind": "nothing"}, seconds=60) == {"done": "nothing"}


def test_what_is_printed_to_stdout_is_noise(child: Child) -> None:
    """C++ code that prints to stdout does not disturb the answers."""
    assert child.ask({"command": "do", "kind": "noise"}, seconds=60) == {"done": "noise"}


def test_a_large_file_can_not_be_written(child: Child, tmp_path: Path) -> None:
    """The file limit keeps a damaged asset from filling the disk."""
    with pytest.raises(DamagedAssetError) as caught:
        child.ask({"command": "do", "kind": "file", "path": str(tmp_path / "big")}, seconds=60)
    assert "File too large" in str(caught.value.found)
    assert (tmp_path / "big").stat().st_size <= 1 << 20


def test_a_child_that_does_not_start_is_the_platforms_fault() -> None:
    """Before the child is ready no asset was touched, so none is blamed."""
    missing = Child("tests.coreai_backend.no_such_module", subject="the asset", limits=Limits(memory=6 << 30))
    with missing, pytest.raises(PlatformError) as caught:
        missing.ask({"command": "do", "kind": "nothing"}, seconds=60)
    assert caught.value.code == "reader-start"
    assert "no_such_module" in str(caught.value.found)


ORPHANED = """
import sys
from forgepack.coreai_backend.process import Child, Limits
with Child(sys.argv[1], subject="the asset", limits=Limits(memory=6 << 30)) as child:
    print(child._process.pid, flush=True)
    child.ask({"command": "do", "kind": "hang"}, seconds=600)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for the child in /proc")
def test_a_child_ends_with_its_parent() -> None:
    """A parent that is killed leaves no child that goes on writing."""
    command = [sys.executable, "-c", ORPHANED, MODULE]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert parent.stdout is not None
    orphan = Path("/proc", parent.stdout.readline().strip(), "cmdline")
    assert MODULE in orphan.read_text()
    parent.kill()
    parent.communicate()
    for _ in range(3000):
        if not orphan.exists() or not orphan.read_text():  # a zombie has no command line
            break
        time.sleep(0.01)
    else:
        os.kill(int(orphan.parent.name), signal.SIGKILL)
        pytest.fail("the child lives on without its parent")
