"""How a target is named, by its release root or by parts that are elsewhere, and where its parts then are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import read_error
from forgepack.artifacts.target import TargetPaths, locate_target, not_a_release_root


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetParts:
    """A target as it is named: its release root, and the folders of parts that are outside of it.

    Without ``root`` at least ``model`` and ``build`` are named. ``export`` may be left out: ``root/export`` is
    searched for the one that the manifest names.
    """

    root: Path | None = None
    model: Path | None = None
    build: Path | None = None
    export: Path | None = None


def find_target(named: TargetParts) -> TargetPaths:
    """Return where a target's parts are; MissingError for a folder that is not a target's release root.

    Raises UsageError for a path that does not exist and UnreadableError for one that can't be looked into.
    """
    try:
        paths = locate_target(named.root, model=named.model, build=named.build, export=named.export)
        lacking = [
            f"{name}/" for name, path in (("model", paths.model), ("coreai", paths.build)) if not path.is_dir()
        ]
    except OSError as err:
        raise read_error(err, str(err.filename or named.root)) from err
    if lacking:
        raise not_a_release_root(named.root, lacking)
    return paths
