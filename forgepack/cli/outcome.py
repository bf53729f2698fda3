"""What the machine does to a run, as documented errors: no memory, no room, no stream, no current folder.

These are faults of no input's content and of no code; the guard in ``cli.main`` asks here before it calls one
internal.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from forgepack.disk.failures import has_current_folder, no_current_folder
from forgepack.errors import ForgepackError, InputError, LimitError, OutputError, UnreadableError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_HANDLES = (errno.EMFILE, errno.ENFILE)
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# How the dynamic linker and the thread library say that there is no memory.
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "can't start new thread", "cannot enable executable")


def machine_error(err: BaseException) -> ForgepackError | None:
    """Return the documented error that an exception stands for, None for one that is a fault of this tool."""
    if isinstance(err, MemoryError) or _says_no_memory(err):
        return LimitError(
            "the input needs more memory than there is",
            expected="the bounds of docs/reference/limits.md, and the tensors' own size",
            hint="free memory, raise `ulimit -v` or the container's limit, or give --threads 1",
            code="memory",
        )
    if isinstance(err, RecursionError):
        return InputError("the input is nested too deeply", hint="restore it from its source", code="depth")
    if isinstance(err, UnicodeEncodeError):
        found = ascii(str(err.object)[: err.end].rpartition('"')[2][-200:])
        hint = "rename the file or folder in UTF-8"
        return InputError("a name is not UTF-8, and no document could hold it", found=found, hint=hint, code="name")
    return _system_error(err) if isinstance(err, OSError) else None


def _says_no_memory(err: BaseException) -> bool:
    if isinstance(err, OSError):
        return err.errno in (errno.ENOMEM, errno.EAGAIN)
    return isinstance(err, ImportError | RuntimeError) and any(word in str(err).lower() for word in _NO_MEMORY)


def _system_error(err: OSError) -> ForgepackError | None:
    place = None if err.filename is None else os.fsdecode(err.filename)
    found = err.strerror or type(err).__name__
    if err.errno in (errno.EPIPE, errno.EBADF):
        what = "standard output is closed: its reader has gone, or it was never open"
        return OutputError(what, found=found, hint="give it a reader or a file", code="stdout")
    if err.errno in _FULL:
        return OutputError("the output could not be written", where=place, found=found, code="write")
    if err.errno in _HANDLES:
        hint = "raise it: ulimit -n 1024"
        return UnreadableError("too many open files for this machine's limit", where=place, found=found, hint=hint)
    if err.errno == errno.ENOENT and not has_current_folder():
        return no_current_folder(err)
    if err.errno in _UNREADABLE and place is not None:
        return UnreadableError("a file or folder can't be used", where=place, found=found, code="unreadable")
    return None


def open_standard_streams() -> None:
    """Open what of stdin, stdout and stderr was closed, and let the others take any text.

    Else the next file that is opened would get such a stream's number, and be written to. What is written to a
    stdout that was closed fails as it does on a pipe without a reader; messages on stderr are dropped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            handle = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            stream = open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        if name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


class _Console(io.FileIO):
    """Standard error whose writes never fail: what its disk or reader refuses is dropped, and the code stays."""

    def write(self, data: Any, /) -> int:
        """Write, or do as if; return the bytes."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def let_console_fail() -> None:
    """Let a stderr that can't be written (a full disk, ``ulimit -f``, a reader that has gone) change no exit code."""
    if sys.stderr is not None:
        binary = io.BufferedWriter(_Console(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def drop_stdout() -> None:
    """Send to nowhere what stdout still holds, so that the interpreter's last flush does not fail again."""
    handle = os.open(os.devnull, os.O_WRONLY)
    os.dup2(handle, 1)
    os.close(handle)


def use_utf8() -> None:
    """Start again in Python's UTF-8 mode where file names are decoded as anything else (``LC_ALL=C``)."""
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - ourselves
