"""checkpoint.lock.json: which bytes a checkpoint folder must hold, and where they come from.

``forgepack fetch`` writes it last, by rename, so a folder that has a lock was complete when it was written. The lock
proves nothing by itself: ``forgepack.artifacts.locked`` compares it with the profile and with the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.tree import collisions, unsafe_path
from forgepack.canonical import digest_json, dump_canonical, parse_object
from forgepack.disk.files import write_file
from forgepack.document import DocumentKind, grown
from forgepack.errors import CorruptError, MissingError
from forgepack.limits import LOCKED_FILES

LOCK_NAME = "checkpoint.lock.json"
# What stands behind a file's bytes: the hub's record of the commit, or, of an adopted one, which of commit and digest
# the records of the client that downloaded it state, and they agree ("client": both).
Evidence = Literal["hub", "client", "commit", "digest", "none"]


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a lock of version 1 in today's form: fetched files were compared, of adopted ones it does not say."""
    evidence = None if raw["adopted"] else "hub"
    return {**raw, "files": [grown(file, evidence=evidence) for file in raw["files"]]}


KIND = DocumentKind(
    name="forgepack.checkpoint-lock",
    title="checkpoint lock",
    remake="remove the lock and run forgepack fetch on the folder again",
    code="lock-invalid",
    version=2,
    upgrade=_from_version_1,
    form="checkpoint.lock",
    unstated=("evidence",),
)
MAX_FILES = LOCKED_FILES
_NOT_VALID = "the checkpoint lock is not valid"
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """One file of the checkpoint: POSIX path below the folder, size in bytes, SHA-256 in lower-case hex.

    ``evidence`` is None where it is not known: of an adopted file in a lock of version 1.
    """

    path: str
    bytes: int
    sha256: str
    evidence: Evidence | None = None


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
        files = [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256, "evidence": f.evidence} for f in self.files]
        head = {"schema": KIND.schema, "repo": self.repo, "commit": self.commit, "adopted": self.adopted}
        return {**head, "files": files}


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
    """Return a lock with its files sorted by path; evidence that no file states is the least that can be said."""
    least: Evidence = "none" if adopted else "hub"
    ordered = tuple(sorted((replace(f, evidence=f.evidence or least) for f in files), key=lambda f: f.path))
    return CheckpointLock(repo=repo, commit=commit, adopted=adopted, files=ordered)


def read_lock(root: Path) -> CheckpointLock:
    """Read the folder's lock; MissingError (``lock-missing``) without one, CorruptError when it is not valid."""
    path = root / LOCK_NAME
    try:
        data = read_bounded(path)
    except MissingError as err:
        raise MissingError(
            "the checkpoint folder has no lock: it was not fetched, or its fetch did not finish",
            where=str(path),
            hint="run forgepack fetch --out on the folder, or forgepack fetch --adopt for one obtained otherwise",
            code="lock-missing",
        ) from err
    return parse_lock(parse_object(data, where=str(path)), where=str(path))


def parse_lock(raw: dict[str, Any], *, where: str) -> CheckpointLock:
    """Build a lock from its JSON object; CorruptError names the first field that is not as it must be."""
    older = KIND.is_older(raw)
    written, current = digest_json(raw) if older else None, KIND.current(raw, where=where)
    for fault in KIND.faults(current, older=older):
        path = fault.value if fault.field.endswith("].path") else None
        raise _unsafe(path, where=f"{where}: {fault.field}") or KIND.error(fault, where=where)
    files = tuple(LockedFile(**file) for file in current["files"])
    for number, file in enumerate(files):
        _check_file(file, current["adopted"], where=f"{where}: files[{number}]")
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths) or collisions(paths):
        expected, found = "paths that differ on every platform", "equal paths"
        raise _corrupt(f"{where}: files", expected, found, code="case-collision")
    ordered = tuple(sorted(files, key=lambda file: file.path))
    head = {key: current[key] for key in ("repo", "commit", "adopted")}
    return CheckpointLock(**head, files=ordered, written=written)


def _check_file(file: LockedFile, adopted: bool, *, where: str) -> None:
    """Check what the schema can't say: a path that is safe on every platform, evidence that fits the whole lock."""
    unsafe = _unsafe(file.path, where=f"{where}.path")
    if unsafe is not None:
        raise unsafe
    if not file.path.isprintable():
        raise _corrupt(f"{where}.path", "a printable path", repr(file.path)[:80])
    if (file.evidence == "hub") == adopted:
        expected = "none of the hub's in an adopted lock, the hub's in any other"
        raise _corrupt(f"{where}.evidence", expected, repr(file.evidence))


def _unsafe(path: Any, *, where: str) -> CorruptError | None:
    printable = isinstance(path, str) and path.isprintable()
    return unsafe_path(path, _NOT_VALID, where=where, hint=KIND.remake) if printable else None


def _corrupt(where: str, expected: str, found: str, code: str = KIND.code) -> CorruptError:
    return CorruptError(_NOT_VALID, where=where, expected=expected, found=found, hint=KIND.remake, code=code)


def write_lock(root: Path, lock: CheckpointLock) -> None:
    """Write the folder's lock whole or not at all."""
    write_file(root / LOCK_NAME, dump_canonical(lock.as_json()))
