"""What commands take from the machine: threads, files and folders that must exist."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forgepack.artifacts.files import read_error
from forgepack.errors import UsageError

if TYPE_CHECKING:
    from forgepack.artifacts.target import TargetPaths

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


def find_target(options: Mapping[str, Any]) -> TargetPaths:
    """Return the parts of the target that the options name; MissingError for a folder that is none's release root."""
    from forgepack.artifacts.target import locate_target, not_a_release_root

    parts = {part: options[f"target_{part}"] for part in ("model", "build", "export")}
    try:
        paths = locate_target(options["target"], **parts)
        lacking = [
            f"{name}/" for name, path in (("model", paths.model), ("coreai", paths.build)) if not path.is_dir()
        ]
    except OSError as err:
        raise read_error(err, str(err.filename or options["target"])) from err
    if lacking:
        raise not_a_release_root(options["target"], lacking)
    return paths


def require_file(path: Path) -> None:
    """Raise UsageError for a named path that does not exist."""
    if not path.exists():
        raise UsageError("no such file", where=str(path), hint="check the path")
