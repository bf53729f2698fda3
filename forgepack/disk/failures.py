"""What a disk refuses, as one error with one wording and a cure for each cause."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forgepack.errors import OutputError, UsageError

_CAUSES: tuple[tuple[tuple[int, ...], str, str], ...] = (
    (
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
        "disk-full",
        "free space or name another place, then run the same command again",
    ),
    (
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "not-writable",
        "name a place that this user may write, then run the same command again",
    ),
    (
        (errno.ENAMETOOLONG,),
        "name-too-long",
        "name a shorter output: hidden names beside it are up to six characters longer",
    ),
    ((errno.EBUSY,), "busy", "name a folder that nothing is mounted on and no program holds"),
)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError inside into an OutputError that names ``path``, with a code and a cure for its cause.

    UsageError where the current folder is gone, to which ``path`` is relative.
    """
    try:
        yield
    except OSError as err:
        if err.errno == errno.ENOENT and not path.is_absolute() and not has_current_folder():
            raise no_current_folder(err) from err
        found = ((code, hint) for causes, code, hint in _CAUSES if err.errno in causes)
        code, hint = next(found, ("write-failed", "check the disk or name another place"))
        raise OutputError(
            "the output could not be written",
            where=str(err.filename or path),
            found=err.strerror,
            hint=hint,
            code=code,
        ) from err


def has_current_folder() -> bool:
    """Say whether the folder that this process works in is still there."""
    try:
        return Path.cwd().is_dir()
    except OSError:
        return False


def no_current_folder(err: OSError) -> UsageError:
    """Return the error for a process whose current folder was removed."""
    hint = "cd into a folder that is there"
    return UsageError("the current folder no longer exists", found=err.strerror, hint=hint, code="no-cwd")
