"""What must be done so that a folder holds a commit's files: which are there and right, missing, or wrong."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import read_error
from forgepack.artifacts.lock import CheckpointLock, LockedFile, is_repo
from forgepack.artifacts.locked import refuse_wrong_files
from forgepack.artifacts.tree import unsafe_reason
from forgepack.errors import HubError, IdentityError, MissingError, OutputError, UsageError
from forgepack.hub.client import HubFile
from forgepack.hub.partial_file import hash_content
from forgepack.hub.report import Effects, Progress
from forgepack.hub.staging import STAGING_NAME, part_name, replaceable
from forgepack.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file: ``sha256`` is set when the right bytes are in place; ``waiting`` bytes are in its part."""

    file: HubFile
    sha256: str | None
    waiting: int


def check_pin(profile: Profile) -> None:
    """Raise UsageError if the profile's repository or a file name in it can't be used, on any platform."""
    if not is_repo(profile.hub.repo):
        raise UsageError(
            "the profile names no repository",
            where=f"{profile.name}: hub.repo",
            expected="owner/name",
            found=repr(profile.hub.repo)[:80],
            code="profile-repo",
        )
    for name in (*profile.hub.files, *profile.hub.optional_files):
        reason = unsafe_reason(name)
        if reason is None and name.split("/")[0] == STAGING_NAME:
            reason = "is the staging folder's name"
        if reason is not None:
            raise UsageError(
                "the profile names a file that can't be taken",
                where=f"{profile.name}: hub.files",
                found=f"{name!r}: {reason}",
                code="path-escape",
            )


def select_files(profile: Profile, listed: Mapping[str, HubFile], where: str) -> list[HubFile]:
    """Return the records of the profile's files, sorted by path; HubError if a required one is not listed.

    A digest that the profile knows to be wrong is refused here, before a byte is downloaded.
    """
    absent = sorted(set(profile.hub.files) - set(listed))
    if absent:
        raise HubError(
            "the commit lacks a file that the profile requires",
            where=where,
            expected=", ".join(absent),
            found=", ".join(sorted(listed)[:12]) or "no files",
            hint="check the commit in the profile or --revision",
            code="hub-file-missing",
        )
    names = {*profile.hub.files, *profile.hub.optional_files}
    wanted = [listed[name] for name in sorted(names) if name in listed]
    known = [LockedFile(path=f.path, bytes=f.size, sha256=f.sha256) for f in wanted if f.sha256 is not None]
    refuse_wrong_files(known, profile, where=where)
    return wanted


def check_record(files: Iterable[tuple[str, int, str | None]], lock: CheckpointLock, where: str) -> None:
    """Raise IdentityError if the hub's (path, bytes, sha256) of a commit are not what a lock recorded before."""
    for path, size, sha256 in files:
        entry = lock.file(path)
        if entry is not None and (entry.bytes != size or sha256 not in (None, entry.sha256)):
            raise IdentityError(
                "the hub's record of the commit is not the one that was locked",
                where=f"{where}: {path}",
                expected=f"{entry.bytes} bytes, sha256 {entry.sha256}",
                found=f"{size} bytes" + (f", sha256 {sha256}" if sha256 else ""),
                hint="a commit can't change: the hub or mirror is not to be trusted, or the lock was edited",
                code="record-changed",
            )


def make_plan(files: Iterable[HubFile], out: Path, *, force: bool, profile: Profile, effects: Effects) -> list[Item]:
    """Look at what is in ``out`` (every present file is hashed) and return one Item a file.

    A file that is there with other bytes is never overwritten: IdentityError (``out-differs``) lists all of them,
    unless ``force``; and UsageError (``foreign``) those that no lock of this tool lists, ``force`` or not.
    """
    items, wrong, foreign = [], [], []
    ours = replaceable(out, profile)
    for file in files:
        sha256, difference = _look(out, file, effects)
        if difference is not None:
            wrong.append(f"{file.path}: {difference}")
            foreign += [] if file.path in ours else [file.path]
        items.append(Item(file=file, sha256=sha256, waiting=_waiting(out, file)))
    if wrong and not force:
        raise IdentityError(
            f"{len(wrong)} file(s) in the output folder are not the commit's",
            where=str(out),
            found="; ".join(wrong),
            hint="choose another --out, or replace them with --force",
            code="out-differs",
        )
    if foreign:
        raise UsageError(
            "the folder holds files of the checkpoint's names that forgepack did not write",
            where=str(out / foreign[0]),
            expected="only files that a lock of forgepack lists",
            found=", ".join(foreign),
            hint="move them away if they are of value, or name another --out",
            code="foreign",
        )
    return items


def _look(out: Path, file: HubFile, effects: Effects) -> tuple[str | None, str | None]:
    """Return (sha256, None) for right bytes in place, (None, None) for no file, (None, what differs) otherwise."""
    path = out / file.path
    try:
        status = path.lstat()
    except OSError as err:
        error = read_error(err, str(path))
        if isinstance(error, MissingError):
            return None, None
        raise error from err
    if stat.S_ISDIR(status.st_mode):
        raise OutputError("a folder is where a file must be", where=str(path), code="not-writable")
    if not stat.S_ISREG(status.st_mode):
        return None, "expected a regular file, found a link or special file"
    if status.st_size != file.size:
        return None, f"expected {file.size} bytes, found {status.st_size} bytes"
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        effects.report(Progress(phase="check", path=file.path, done=done, total=file.size))

    content = hash_content(path, file, tell)
    if content.matches():
        return content.sha256, None
    return None, f"expected {content.expected}, found {content.found}"


def _waiting(out: Path, file: HubFile) -> int:
    try:
        size = (out / STAGING_NAME / part_name(file)).lstat().st_size
    except OSError:
        return 0
    return size if size <= file.size else 0


def needed_bytes(items: Iterable[Item]) -> int:
    """Return the bytes of disk that the downloads still take."""
    return sum(item.file.size - item.waiting for item in items if item.sha256 is None)
