"""The hidden folder inside an output folder where parts wait, held by one run at a time.

``OUT/.forgepack-fetch/`` holds ``lock`` (flock; a stale file is harmless) and one ``<path digest>-<etag>.part`` a
file. The name says which content a part belongs to, so parts of another commit are never taken for this one's:
what a dead run left is reused when its content is still wanted, else removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, write_lock
from forgepack.disk.failures import writing
from forgepack.disk.files import fsync_folder, make_folder, move_file, remove_file
from forgepack.disk.locks import LOCK, held
from forgepack.disk.records import listed_by_lock
from forgepack.errors import OutputError
from forgepack.hub.client import HubFile
from forgepack.profile import Profile

STAGING_NAME = ".forgepack-fetch"
# The lock of a folder whose files are being replaced: no reader takes the folder for complete meanwhile.
REPLACED = "replaced.lock.json"


class Staging:
    """The staging folder of one output folder, held by this run. Made by ``hold_staging``."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / STAGING_NAME

    def part(self, file: HubFile) -> Path:
        """Return where the file's bytes wait."""
        return self.folder / part_name(file)

    def sweep(self, files: Iterable[HubFile]) -> None:
        """Remove whatever an earlier run left and this one does not want."""
        wanted = {part_name(f) for f in files} | {LOCK, REPLACED}
        with writing(self.folder):
            for item in sorted(self.folder.iterdir()):
                if item.name not in wanted and not item.is_dir():
                    remove_file(item)

    def publish(self, files: Iterable[HubFile], lock: CheckpointLock) -> None:
        """Move complete parts to their names, then write the lock: killed in between, no lock says complete.

        A lock that was there waits in the staging folder: it says which files the next run may replace.
        """
        moved, standing = list(files), self.out / LOCK_NAME
        with writing(self.out):
            if moved and os.path.lexists(standing):
                standing.replace(self.folder / REPLACED)
                fsync_folder(self.out)
            for file in moved:
                final = self.out / file.path
                _make_folder(final.parent, self.out)
                move_file(self.part(file), final)
        write_lock(self.out, lock)
        remove_file(self.folder / REPLACED)

    def remove(self) -> None:
        """Remove the folder, unless parts with bytes wait in it for the next run."""
        with suppress(OSError, OutputError):
            if (self.out / LOCK_NAME).exists():
                remove_file(self.folder / REPLACED)
            for item in self.folder.glob("*.part"):
                if item.lstat().st_size == 0:
                    remove_file(item)
            if not any(item.name != LOCK for item in self.folder.iterdir()):
                remove_file(self.folder / LOCK)
                self.folder.rmdir()


def replaceable(out: Path, profile: Profile) -> frozenset[str]:
    """Return the files of a checkpoint folder that --force may replace: those that a lock of this tool lists.

    The lock that stands there counts, and one that a run that was killed has set aside; of one that can't be read,
    the profile's files.
    """
    names: set[str] = set()
    for path in (out / LOCK_NAME, out / STAGING_NAME / REPLACED):
        if path.is_file() and not path.is_symlink():
            names |= listed_by_lock(path) or {*profile.hub.files, *profile.hub.optional_files}
    return frozenset(names)


def _make_folder(folder: Path, out: Path) -> None:
    """Make a folder below ``out``; a link that leads out of it is refused."""
    make_folder(folder, parents=True)
    if not folder.resolve().is_relative_to(out.resolve()):
        raise OutputError("a link leads out of the output folder", where=str(folder), code="not-writable")


def part_name(file: HubFile) -> str:
    """Return the part's name: which file, and which content."""
    return f"{hashlib.sha256(file.path.encode()).hexdigest()[:12]}-{file.etag}.part"


@contextmanager
def hold_staging(out: Path) -> Iterator[Staging]:
    """Make ``out`` and its staging folder and hold them; OutputError (``out-busy``) while another run does.

    On exit an empty staging folder is removed, and ``out`` itself if this run made it and left it empty.
    """
    fresh = not out.exists()
    make_folder(out, parents=True)
    staging = Staging(out)
    busy = OutputError(
        "another run of forgepack fetch writes into the folder",
        where=str(out),
        hint="wait for it to end, or choose another --out",
        code="out-busy",
    )
    try:
        with held(staging.folder, busy=busy):
            try:
                yield staging
            finally:
                staging.remove()
    finally:
        if fresh:
            with suppress(OSError):
                out.rmdir()
