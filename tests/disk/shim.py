"""A file system without exchange, locks or folder flushes, for processes that tests start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

_SOURCE = Path(__file__).with_name("shim.c")


@cache
def shim_library() -> Path | None:
    """Compile the shim once; None where there is no C compiler, or no system that preloads it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    out = Path(mkdtemp(prefix="forgepack-shim-")) / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(out), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, check=False, capture_output=True)
    return out if done.returncode == 0 else None


def shim_environment(**lacking: int) -> dict[str, str]:
    """Return variables for a process on such a file system; the test is skipped where no shim can be made."""
    library = shim_library()
    if library is None:
        pytest.skip("no C compiler: the file system that lacks something can't be made")
    return {"LD_PRELOAD": str(library), **{name: str(value) for name, value in lacking.items()}}
