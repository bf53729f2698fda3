"""checkpoint.lock.json: which bytes a checkpoint folder must hold, and where they come from.

``forgepack fetch`` writes it last, by rename, so a folder that has a lock was complete when it was written.
Every reader of a checkpoint calls ``require_locked`` first. The lock proves nothing by itself: it is compared
with the profile (repository, commit, known-bad digests) and with the files (sizes, or all bytes).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file, read_bounded, read_error
from forgepack.artifacts.tree import collisions, fsync_folder, unsafe_reason
from forgepack.canonical import digest_json, dump_canonical, parse_object
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, IdentityError, MissingError, OutputError
from forgepack.profile import Profile

LOCK_NAME = "checkpoint.lock.json"
KIND = DocumentKind(
    name="forgepack.checkpoint-lock",
    title="checkpoint lock",
    remake="remove the lock and run forgepack fetch on the folder again",
    code="lock-invalid",
)
MAX_FILES = 10_000
_KEYS = {"schema", "repo", "commit", "adopted", "files"}
_FILE_KEYS = {"path", "bytes", "sha256"}
_TEMPORARY = f".{LOCK_NAME}.part"
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """One file of the checkpoint: POSIX path below the folder, size in bytes, SHA-256 in lower-case hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLock:
    """The content of checkpoint.lock.json; ``files`` are sorted by path.

    ``adopted`` is true when the bytes were taken from a folder and never compared with the hub's record.
    ``written`` is the digest of a lock that was read in the form before today's.
    """

    repo: str
    commit: str
    adopted: bool
    files: tuple[LockedFile, ...]
    written: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the lock's compact canonical JSON as it was written: the identity that other files record."""
        return self.written or digest_json(self.as_json())

    def file(self, path: str) -> LockedFile | None:
        """Return the entry of ``path``, or None."""
        return next((f for f in self.files if f.path == path), None)

    def as_json(self) -> dict[str, Any]:
        """Return the lock as the JSON object that schemas/checkpoint.lock.schema.json describes."""
        files = [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256} for f in self.files]
        head = {"schema": KIND.schema, "repo": self.repo, "commit": self.commit, "adopted": self.adopted}
        return {**head, "files": files}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a file is not what the lock says; ``kind`` is ``missing``, ``kind``, ``bytes`` or ``sha256``."""

    path: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def is_commit(text: str) -> bool:
    """Say whether ``text`` is a full commit: 40 lower-case hex digits."""
    return _COMMIT.fullmatch(text) is not None


def is_repo(text: str) -> bool:
    """Say whether ``text`` is a repository's name on the hub: owner/name."""
    return _REPO.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    """Say whether ``text`` is a SHA-256: 64 lower-case hex digits."""
    return _SHA256.fullmatch(text) is not None


def make_lock(*, repo: str, commit: str, adopted: bool, files: Iterable[LockedFile]) -> CheckpointLock:
    """Return a lock with its files sorted by path."""
    ordered = tuple(sorted(files, key=lambda f: f.path))
    return CheckpointLock(repo=repo, commit=commit, adopted=adopted, files=ordered)


def read_lock(root: Path) -> CheckpointLock:
    """Read the folder's lock; MissingError (``lock-missing``) without one, CorruptError when it is not valid."""
    path = root / LOCK_NAME
    try:
        data = read_bounded(path)
    except MissingError as err:
        raise MissingError(
            "the checkpoint folder has no lock: it was not fetched, or its fetch did not end",
            where=str(path),
            hint="run forgepack fetch --out on the folder, or forgepack fetch --adopt for one obtained otherwise",
            code="lock-missing",
        ) from err
    return parse_lock(parse_object(data, where=str(path)), where=str(path))


def parse_lock(raw: dict[str, Any], *, where: str) -> CheckpointLock:
    """Build a lock from its JSON object; CorruptError names the first key that is missing, unknown or ill-typed."""
    written = digest_json(raw) if KIND.is_older(raw) else None
    raw = KIND.current(raw, where=where)
    _check(set(raw) == _KEYS, where, f"the keys {', '.join(sorted(_KEYS))}", sorted(raw))
    _check(
        isinstance(raw["repo"], str) and is_repo(raw["repo"]),
        f"{where}: repo",
        "owner/name",
        raw["repo"],
    )
    _check(
        isinstance(raw["commit"], str) and is_commit(raw["commit"]),
        f"{where}: commit",
        "40 hex",
        raw["commit"],
    )
    _check(isinstance(raw["adopted"], bool), f"{where}: adopted", "true or false", raw["adopted"])
    items = raw["files"]
    _check(isinstance(items, list) and 0 < len(items) <= MAX_FILES, f"{where}: files", "a list of files", items)
    files = [_parse_file(item, where=f"{where}: files[{n}]") for n, item in enumerate(items)]
    paths = [f.path for f in files]
    if len(set(paths)) != len(paths) or collisions(paths):
        raise _corrupt(f"{where}: files", "paths that differ on every platform", "equal paths", code="case-collision")
    lock = make_lock(repo=raw["repo"], commit=raw["commit"], adopted=raw["adopted"], files=files)
    return replace(lock, written=written)


def _parse_file(item: Any, *, where: str) -> LockedFile:
    _check(isinstance(item, dict), where, "an object", item)
    _check(set(item) == _FILE_KEYS, where, f"the keys {', '.join(sorted(_FILE_KEYS))}", sorted(item))
    path, size, sha256 = item["path"], item["bytes"], item["sha256"]
    _check(isinstance(path, str) and path.isprintable(), f"{where}.path", "a printable path", path)
    if (reason := unsafe_reason(path)) is not None:
        raise _corrupt(f"{where}.path", "a path below the folder", f"{path!r}: {reason}", code="path-escape")
    _check(type(size) is int and 0 <= size < 1 << 62, f"{where}.bytes", "a natural number", size)
    _check(isinstance(sha256, str) and is_sha256(sha256), f"{where}.sha256", "64 lower-case hex digits", sha256)
    return LockedFile(path=path, bytes=size, sha256=sha256)


def _check(good: object, where: str, expected: str, found: Any) -> None:
    if not good:
        raise _corrupt(where, expected, repr(found)[:80])


def _corrupt(where: str, expected: str, found: str, code: str = KIND.code) -> CorruptError:
    what = "the checkpoint lock is not valid"
    return CorruptError(what, where=where, expected=expected, found=found, hint=KIND.remake, code=code)


def write_lock(root: Path, lock: CheckpointLock) -> None:
    """Write the folder's lock whole or not at all: temporary file, fsync, rename, fsync of the folder."""
    temporary = root / _TEMPORARY
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as handle:
            handle.write(dump_canonical(lock.as_json()))
            handle.flush()
            os.fsync(handle.fileno())
        temporary.rename(root / LOCK_NAME)
        fsync_folder(root)
    except OSError as err:
        temporary.unlink(missing_ok=True)
        where = str(root / LOCK_NAME)
        raise OutputError(
            "the lock could not be written", where=where, found=err.strerror, code="lock-write"
        ) from err


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
    refuse_known_bad(lock.files, profile, where=where)
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


def refuse_known_bad(files: Iterable[LockedFile], profile: Profile, *, where: str) -> None:
    """Raise IdentityError (``known-bad``) if the profile knows one of the digests to be wrong."""
    for entry in files:
        reason = profile.known_bad.get(entry.sha256)
        if reason is not None:
            raise IdentityError(
                f"{entry.path} is a file that the profile knows to be wrong",
                where=where,
                expected="the pinned checkpoint",
                found=f"{reason} (sha256 {entry.sha256})",
                hint=f"fetch {profile.hub.repo} at {profile.hub.commit}",
                code="known-bad",
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
        hint="forgepack fetch --out on the folder brings missing files; with --force it replaces wrong ones",
        code="lock-differs",
    )
