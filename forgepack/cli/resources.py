"""What commands take from the machine: threads, files and folders that must exist."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from forgepack.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_MOST = 64


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return min(_MOST, len(os.sched_getaffinity(0)))
    return min(_MOST, os.cpu_count() or 1)


def threads_option(command: F) -> F:
    """Add --threads: workers, by default one for each usable core; results never depend on it."""
    return click.option(
        "--threads",
        type=click.IntRange(1, _MOST),
        default=usable_cores,
        show_default="usable cores",
        metavar="N",
        help="Worker threads; the result does not depend on them.",
    )(command)


def require_file(path: Path) -> None:
    """Raise UsageError for a named path that does not exist."""
    if not path.exists():
        raise UsageError("no such file", where=str(path))


def require_parent(out: Path) -> None:
    """Raise UsageError when the folder that an output would go into does not exist."""
    if not out.parent.is_dir():
        raise UsageError("the output's parent folder does not exist", where=str(out.parent))


def require_new(out: Path, *, force: bool) -> None:
    """Raise UsageError when an output exists, unless it may be replaced; a folder is never replaced by a file."""
    if out.is_dir():
        raise UsageError("the output is a folder", where=str(out), hint="name a file")
    if not force and (out.exists() or out.is_symlink()):
        raise UsageError("the output exists", where=str(out), hint="choose another file, or give --force")
