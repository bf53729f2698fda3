"""A small disk of its own: a tmpfs in a mount namespace, which no other process sees and which ends with the test.

Mounting needs root with CAP_SYS_ADMIN, or the right to make user namespaces; where neither is had (most containers
without privileges), the test is skipped and says what refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_HOLD = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo ready && exec cat'
# The command line, on a disk whose room others take once it was asked for: what is full then is told by the system.
UNASKED = """
import sys
from forgepack.disk import folders
folders.demand_space = lambda *_, **__: None
from forgepack.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
_TOOLS = ("unshare", "nsenter", "mount")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDisk:
    """``folder`` is where commands run on it see the disk, ``view`` where the test itself does."""

    folder: Path
    pid: int

    @property
    def view(self) -> Path:
        """Return the disk's root as this process sees it."""
        return Path(f"/proc/{self.pid}/root{self.folder}")

    @property
    def used(self) -> int:
        """Bytes that the disk holds."""
        found = os.statvfs(self.view)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def run(self, command: Sequence[str | Path], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command that sees the disk."""
        enter = ["nsenter", *_user("--user", "--preserve-credentials"), "--mount", "-t", str(self.pid)]
        line = [*enter, *([] if cwd is None else [f"--wd={cwd}"]), *map(str, command)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def leave_free(self, size: int) -> None:
        """Make the disk as large as what it holds and ``size`` bytes more."""
        self._remount(f"size={self.used + size}")

    def freeze(self) -> None:
        """Let nobody write to it, root neither."""
        self._remount("ro")

    def _remount(self, option: str) -> None:
        done = self.run(["mount", "-o", f"remount,{option}", self.folder])
        assert done.returncode == 0, done.stderr


@contextmanager
def small_disk(folder: Path, size: int = 64 << 20) -> Iterator[SmallDisk]:
    """Yield a disk of ``size`` bytes, mounted over ``folder`` in its own namespace; skip where that is refused."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing or not sys.platform.startswith("linux"):
        pytest.skip(f"no small disk can be mounted here: no {', '.join(missing) or 'mount namespaces'}")
    folder.mkdir(exist_ok=True)
    line = [
        "unshare",
        *_user("--user", "--map-root-user"),
        "--mount",
        "sh",
        "-c",
        _HOLD,
        "sh",
        str(size),
        str(folder),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stderr is not None
        try:
            if holder.stdout.readline() != "ready\n":
                pytest.skip(f"no small disk can be mounted here: {holder.stderr.read().strip()[:200]}")
            yield SmallDisk(folder=folder, pid=holder.pid)
        finally:
            holder.stdin.close()  # the namespace, and the disk with it, ends with its last process


def _user(*options: str) -> tuple[str, ...]:
    """Return options of a user namespace, which only others than root need."""
    return () if os.geteuid() == 0 else options
