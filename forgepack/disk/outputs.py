"""Files that a user names as outputs: replaced whole, or written through where a device or a pipe stands."""

from __future__ import annotations

import os
from pathlib import Path

from forgepack.disk.failures import writing
from forgepack.disk.files import remove_file, write_file
from forgepack.disk.places import descriptor_of, is_through


def clear_output(path: Path | None) -> None:
    """Remove an older file of an output that has been checked: it must not pass for what a run that fails made."""
    if path is not None and not is_through(path):
        remove_file(path)


def write_output(path: Path, data: bytes) -> None:
    """Write an output file whole or not at all; through a device, a pipe or a descriptor, which stays what it is."""
    if not is_through(path):
        write_file(path, data)
        return
    with writing(path):
        number = descriptor_of(path)
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(path, flags) if number is None else os.dup(number)
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
