"""Whether an input changed while it was read: what the system says of a file, before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import read_error
from forgepack.errors import UnreadableError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """Size, and times in ns of the last write and of the last change of any kind, which no tool can set back.

    ``number`` is the file's own, so that another file moved under the name is seen. A file that is linked, renamed or
    given other rights meanwhile counts as changed as well: what was done to it can't be known.
    """

    path: Path
    bytes: int
    written: int
    changed: int
    number: tuple[int, int]


def file_states(paths: Iterable[Path]) -> tuple[FileState, ...]:
    """Return the state of each file; MissingError or UnreadableError for one that can't be looked at."""
    return tuple(_state(path) for path in paths)


def _state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError as err:
        raise read_error(err, str(path)) from err
    return FileState(
        path=path,
        bytes=found.st_size,
        written=found.st_mtime_ns,
        changed=found.st_ctime_ns,
        number=(found.st_dev, found.st_ino),
    )


def require_unchanged(before: tuple[FileState, ...]) -> None:
    """Raise UnreadableError (code ``changed``) that names the first file whose state is not what it was."""
    for old in before:
        if not old.path.exists() or _state(old.path) != old:
            raise UnreadableError(
                "an input changed while it was read",
                where=str(old.path),
                hint="run the command again once nothing writes to it",
                code="changed",
            )
