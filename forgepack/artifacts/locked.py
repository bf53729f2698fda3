"""A checkpoint folder compared with its lock, and the lock against the profile.

Every reader of a checkpoint calls ``require_locked`` first: repository, commit and known-bad digests are the
profile's, sizes or all bytes of the files are the lock's.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import hash_file, read_error
from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, LockedFile, read_lock
from forgepack.errors import IdentityError, MissingError
from forgepack.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a file is not what the lock says; ``kind`` is ``missing``, ``kind``, ``bytes`` or ``sha256``."""

    path: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def size_differences(root: Path, lock: CheckpointLock) -> tuple[Difference, ...]:
    """Compare presence, kind and size of every locked file, without reading any."""
    found = (_size_difference(root, entry) for entry in lock.files)
    return tuple(d for d in found if d is not None)


def byte_differences(
    root: Path, lock: CheckpointLock, progress: Callable[[str, int], None] | None = None
) -> tuple[Difference, ...]:
    """Compare every locked file by size and SHA-256; ``progress`` gets (path, bytes just read)."""
    out = []
    for entry in lock.files:
        difference = _size_difference(root, entry)
        if difference is None:
            difference = _byte_difference(root, entry, progress)
        if difference is not None:
            out.append(difference)
    return tuple(out)


def _size_difference(root: Path, entry: LockedFile) -> Difference | None:
    path = root / entry.path
    try:
        status = path.lstat()
    except OSError as err:
        error = read_error(err, str(path))
        if not isinstance(error, MissingError):
            raise error from err
        return Difference(path=entry.path, kind="missing", expected=f"{entry.bytes} bytes", found="no file")
    if not stat.S_ISREG(status.st_mode):
        found = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        return Difference(path=entry.path, kind="kind", expected="a regular file", found=found)
    if status.st_size != entry.bytes:
        found = f"{status.st_size} bytes"
        return Difference(path=entry.path, kind="bytes", expected=f"{entry.bytes} bytes", found=found)
    return None


def _byte_difference(root: Path, entry: LockedFile, progress: Callable[[str, int], None] | None) -> Difference | None:
    tell = None if progress is None else lambda count: progress(entry.path, count)
    _, sha256 = hash_file(root / entry.path, tell)
    if sha256 == entry.sha256:
        return None
    return Difference(path=entry.path, kind="sha256", expected=f"sha256 {entry.sha256}", found=f"sha256 {sha256}")


def require_locked(
    root: Path,
    profile: Profile,
    *,
    hashed: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> CheckpointLock:
    """Return the folder's lock if it is the profile's and the files fit it; every reader of a checkpoint calls this.

    Cheap by default (kinds and sizes); with ``hashed`` every byte is read. Raises MissingError without a lock and
    IdentityError with the code ``lock-repo``, ``lock-commit``, ``lock-files``, ``known-bad`` or ``lock-differs``.
    """
    lock = read_lock(root)
    where = str(root / LOCK_NAME)
    for key, pinned, found in (("repo", profile.hub.repo, lock.repo), ("commit", profile.hub.commit, lock.commit)):
        if pinned != found:
            raise IdentityError(
                f"the checkpoint is of another {key} than the profile {profile.name} pins",
                where=where,
                expected=pinned,
                found=found,
                hint="fetch the profile's checkpoint into another folder, or name the profile of this one",
                code=f"lock-{key}",
            )
    refuse_wrong_files(lock.files, profile, where=where)
    absent = sorted(set(profile.hub.files) - {f.path for f in lock.files})
    if absent:
        raise IdentityError(
            "the lock does not cover a file that the profile requires",
            where=where,
            expected=", ".join(absent),
            found=", ".join(f.path for f in lock.files),
            hint="run forgepack fetch on the folder again",
            code="lock-files",
        )
    differences = byte_differences(root, lock, progress) if hashed else size_differences(root, lock)
    refuse_differences(root, differences)
    return lock


def refuse_wrong_files(files: Iterable[LockedFile], profile: Profile, *, where: str) -> None:
    """Raise IdentityError for a file that the profile knows to be wrong (``known-bad``), or pins otherwise."""
    for entry in files:
        reason, pinned = profile.known_bad.get(entry.sha256), profile.hub.sha256.get(entry.path)
        if reason is not None:
            raise IdentityError(
                f"{entry.path} is a file that the profile knows to be wrong",
                where=where,
                expected="the pinned checkpoint",
                found=f"{reason} (sha256 {entry.sha256})",
                hint=f"fetch {profile.hub.repo} at {profile.hub.commit}",
                code="known-bad",
            )
        if pinned not in (None, entry.sha256):
            raise IdentityError(
                f"{entry.path} is not the file that the profile pins",
                where=where,
                expected=f"sha256 {pinned}, pinned by {profile.name}",
                found=f"sha256 {entry.sha256}",
                hint=f"fetch {profile.hub.repo} at {profile.hub.commit}",
                code="pinned",
            )


def refuse_differences(root: Path, differences: tuple[Difference, ...]) -> None:
    """Raise IdentityError (``lock-differs``) that lists up to eight differences, if there are any."""
    if not differences:
        return
    listed = "; ".join(map(str, differences[:8]))
    more = f"; and {len(differences) - 8} more" if len(differences) > 8 else ""
    raise IdentityError(
        f"{len(differences)} file(s) are not what {LOCK_NAME} says",
        where=str(root),
        found=listed + more,
        hint="forgepack fetch --out on the folder downloads missing files; with --force it replaces wrong ones",
        code="lock-differs",
    )
