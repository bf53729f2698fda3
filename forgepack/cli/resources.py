"""What commands take from the machine: threads, and the folders of the target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from forgepack.artifacts.target import TargetPaths
    from forgepack.artifacts.target_parts import TargetParts

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


def target_parts(options: Mapping[str, Any]) -> TargetParts:
    """Return the target as the options name it."""
    from forgepack.artifacts.target_parts import TargetParts

    parts = {part: options[f"target_{part}"] for part in ("model", "build", "export")}
    return TargetParts(root=options["target"], **parts)


def find_target(options: Mapping[str, Any]) -> TargetPaths:
    """Return the parts of the target that the options name; MissingError for a folder that is none's release root."""
    from forgepack.artifacts.target_parts import find_target as find

    return find(target_parts(options))
