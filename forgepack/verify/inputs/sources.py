"""Where everything that a verification reads is, and how paths are shown without this machine's folders."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from forgepack.artifacts.files import read_error
from forgepack.artifacts.target import TargetPaths, locate_target, not_a_release_root
from forgepack.disk.places import interrupted
from forgepack.errors import CorruptError, MissingError, UsageError
from forgepack.verify.inputs.extra_files import ExtraFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Absolute roots of the pair's parts; ``named`` keeps each as the user wrote it.

    ``allow_links`` accepts symbolic links that resolve to regular files, as in a hub cache. ``bundle`` is the folder
    of a release that holds the parts; ``plain`` leaves its drafter out, as a diagnostic of the target alone.
    ``given`` is what else was named: attestations, evidence, withdrawn digests.
    """

    drafter: Path
    target: TargetPaths
    root: Path | None
    quant: Path | None
    checkpoint: Path | None
    traces: Path | None
    named: dict[str, str]
    allow_links: bool = False
    bundle: Path | None = None
    plain: bool = False
    extra_files: ExtraFiles = field(default_factory=ExtraFiles)

    def roots(self) -> dict[str, Path]:
        """Return role -> root of every part that is given."""
        parts = {
            "drafter": self.drafter,
            "model": self.target.model,
            "coreai": self.target.build,
            "export": self.target.export,
            "quant": self.quant,
            "checkpoint": self.checkpoint,
            "traces": self.traces,
            "bundle": self.bundle,
            "target": self.root if self.bundle is None else None,
        }
        return {role: path for role, path in parts.items() if path is not None}

    def show(self, text: str) -> str:
        """Return ``text`` (a path, perhaps with ``: part`` after it) with a leading root replaced by its role."""
        best = max(
            ((role, str(path)) for role, path in self.roots().items() if _below(text, str(path))),
            key=lambda pair: len(pair[1]),
            default=None,
        )
        return text if best is None else best[0] + text[len(best[1]) :]


def _below(text: str, root: str) -> bool:
    return text.startswith(root) and text[len(root) : len(root) + 1] in ("", "/", ":")


def find_sources(  # noqa: PLR0913  (one keyword for each part that may be named)
    drafter: Path,
    target: Path | None,
    *,
    model: Path | None = None,
    build: Path | None = None,
    export: Path | None = None,
    quant: Path | None = None,
    checkpoint: Path | None = None,
    traces: Path | None = None,
    allow_links: bool = False,
) -> Sources:
    """Locate every part; UsageError for a path that does not exist or is not a folder."""
    demand_folder(drafter, "the drafter folder")
    demand_sources(quant, checkpoint, traces)
    paths = _locate(target, model=absolute(model), build=absolute(build), export=absolute(export))
    given = {
        "drafter": drafter,
        "target": target,
        "model": model,
        "coreai": build,
        "export": export,
        "quant": quant,
        "checkpoint": checkpoint,
        "traces": traces,
    }
    return Sources(
        drafter=absolute(drafter),
        target=paths,
        root=absolute(target),
        quant=absolute(quant),
        checkpoint=absolute(checkpoint),
        traces=absolute(traces),
        named={role: path.as_posix() for role, path in given.items() if path is not None},
        allow_links=allow_links,
    )


def demand_sources(quant: Path | None, checkpoint: Path | None, traces: Path | None) -> None:
    """Raise UsageError for a quantized drafter, a checkpoint or traces that are named and not there."""
    for path, name in ((quant, "the quantized drafter's folder"), (checkpoint, "the checkpoint's folder")):
        if path is not None:
            demand_folder(path, name)
    if traces is not None and not traces.exists():
        raise UsageError("the traces do not exist", where=str(traces), hint="check the path")


def _locate(named: Path | None, *, model: Path | None, build: Path | None, export: Path | None) -> TargetPaths:
    """Return the target's parts; a part that is missing is a finding, a folder without any is another folder."""
    try:
        paths = locate_target(absolute(named), model=model, build=build, export=export)
        empty = not paths.model.is_dir() and not paths.build.is_dir()
    except OSError as err:
        raise read_error(err, str(err.filename or named)) from err
    if empty:
        raise not_a_release_root(named, ("model/", "coreai/"))
    return paths


@overload
def absolute(path: Path) -> Path: ...
@overload
def absolute(path: None) -> None: ...
def absolute(path: Path | None) -> Path | None:
    """Return a path as an absolute one; links stay as they are named."""
    return None if path is None else Path(os.path.abspath(path))  # noqa: PTH100  (links stay as they are named)


def demand_folder(path: Path, what: str) -> None:
    """Raise UsageError unless ``path`` is a folder; UnreadableError where that can't be found out."""
    try:
        mode = path.stat().st_mode
    except OSError as err:
        error = read_error(err, str(path))
        if (half := interrupted(path)) is not None:
            raise half from err
        if isinstance(error, MissingError | CorruptError):
            raise UsageError(f"{what} does not exist", where=str(path), hint="check the path") from err
        raise error from err
    if not stat.S_ISDIR(mode):
        hint = f"name the folder that holds it: {path.parent.as_posix()}"
        raise UsageError(f"{what} is not a folder", where=str(path), hint=hint)


def guard_links(root: Path, path: Path, *, allowed: bool) -> None:
    """Refuse ``path`` when it, a folder above it or what it holds is a symbolic link that is not allowed.

    Raises CorruptError (``link`` or, for one that leads nowhere, ``link-dangling``); a missing file passes, its
    reader will say so.
    """
    current = root
    places = [current := current / part for part in path.relative_to(root).parts]
    for current in (*places, *_held_by(path)):
        if not current.is_symlink():
            continue
        if not allowed:
            raise CorruptError(
                "a symbolic link stands in place of a file",
                where=str(current),
                expected="the file itself",
                found=f"a link to {current.readlink()}",
                hint="copy the file, or pass --allow-links for a hub cache",
                code="link",
            )
        if not current.exists():
            raise CorruptError("a symbolic link leads nowhere", where=str(current), code="link-dangling")


def _held_by(path: Path) -> list[Path]:
    """Return what a folder holds, as an asset holds its files; nothing for a file, or for what can't be listed."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []  # its reader says why
