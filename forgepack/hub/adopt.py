"""``forgepack fetch --adopt``: a checkpoint folder obtained otherwise is checked as far as can be, and locked."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from forgepack.artifacts.files import CHUNK, hash_file, open_regular, read_error, wrong_kind
from forgepack.artifacts.lock import (
    LOCK_NAME,
    CheckpointLock,
    LockedFile,
    make_lock,
    read_lock,
    write_lock,
)
from forgepack.artifacts.locked import refuse_wrong_files
from forgepack.errors import CorruptError, HubError, IdentityError, MissingError, UnreadableError, UsageError
from forgepack.hub.client import Answer, HubFile
from forgepack.hub.client_record import (
    ClientRecord,
    read_client_record,
    refuse_other_bytes,
    refuse_other_source,
)
from forgepack.hub.download import Job, download_files, make_report, plan_files
from forgepack.hub.fetch import check_out
from forgepack.hub.partial_file import HEAD_BYTES
from forgepack.hub.plan import check_pin
from forgepack.hub.report import Action, Effects, FetchReport, FileReport, Progress, RetryPolicy
from forgepack.hub.revision import check_revision
from forgepack.hub.staging import hold_staging
from forgepack.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptRequest:
    """Take in ``source`` as the profile's checkpoint at ``revision`` (None: the profile's commit).

    Without ``out`` the lock is written into ``source`` itself, which must hold real files; with it the files are
    copied there and ``source`` is left alone, so a client's cache, whose files are links, can be taken in.
    """

    profile: Profile
    source: Path
    out: Path | None = None
    revision: str | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A folder on this machine as the source of a Transfer."""

    root: Path

    @contextmanager
    def open(self, file: HubFile, offset: int) -> Iterator[Answer]:
        """Yield the file's bytes from ``offset`` on."""
        with open_regular(self.root / file.path) as handle:
            handle.seek(offset)
            yield Answer(start=offset, length=None, chunks=iter(lambda: handle.read(CHUNK), b""))


def adopt_checkpoint(request: AdoptRequest, *, effects: Effects) -> FetchReport:
    """Check the folder's files, hash them and write a lock with ``adopted`` true; no network.

    Refused are absent, empty and link-only files, pointers, pages, weights that are not the profile's closed set of
    tensors, known-bad digests, files of which the client that brought them recorded another repository, commit or
    digest, links that lead elsewhere, and a lock that says otherwise (unless ``force``).
    """
    check_pin(request.profile)
    commit = check_revision(request.revision, request.profile)
    if not request.source.is_dir():
        hint = "name the folder that holds the checkpoint's config.json and model.safetensors"
        raise UsageError("there is no such folder", where=str(request.source), hint=hint, code="no-folder")
    if request.out is not None:
        check_out(request.out, request.source)
    names = _present(request)
    records = [read_client_record(request.source, name, commit) for name in names]
    for record in records:
        refuse_other_source(record, repo=request.profile.hub.repo, commit=commit)
    _check_content(request, names)
    files = [_hash(record, effects) for record in records]
    refuse_wrong_files(files, request.profile, where=str(request.source))
    out = request.source if request.out is None else request.out
    evidence = {file.path: file.evidence or "none" for file in files}
    job = Job(profile=request.profile, out=out, commit=commit, adopted=True, force=request.force, evidence=evidence)
    if request.out is None:
        return _lock_in_place(job, files, request)
    wanted = [HubFile(path=f.path, size=f.bytes, sha256=f.sha256, blob_id="") for f in files]
    if request.dry_run:
        return plan_files(job, wanted, effects)
    _old_lock(job, files)
    source = FolderSource(root=request.source)
    try:
        return download_files(job, wanted, source=source, effects=effects, policy=RetryPolicy(attempts=1))
    except HubError as err:
        raise UnreadableError("the file changed while it was copied", where=err.where, code="changed") from err


def _present(request: AdoptRequest) -> list[str]:
    """Return the names to take, sorted; raise for a required one that is absent, and for links in place."""
    hub = request.profile.hub
    names = []
    for name in sorted({*hub.files, *hub.optional_files}):
        path = request.source / name
        try:
            status = path.lstat()
        except OSError as err:
            error = read_error(err, str(path))
            if isinstance(error, MissingError) and name not in hub.files:
                continue
            raise error from err
        if stat.S_ISLNK(status.st_mode) and request.out is None:
            raise CorruptError(
                "the file is a link, and a lock must stand beside the bytes that it names",
                where=str(path),
                expected="a regular file",
                found="a symbolic link, as in a client's cache",
                hint="add --out DIR to copy the files there",
                code="not-regular",
            )
        names.append(name)
    return names


def _check_content(request: AdoptRequest, names: list[str]) -> None:
    """Raise for files that are empty or of another kind, and for weights that are not the profile's tensors."""
    from forgepack.artifacts.checkpoint import CONFIG_FILE, MODEL_FILE, read_checkpoint_files

    for name in names:
        path = request.source / name
        with open_regular(path) as handle:
            head = handle.read(HEAD_BYTES)
        if name in request.profile.hub.files and head == b"":
            raise CorruptError("the file is empty", where=str(path), code="empty")
        wrong = wrong_kind(path, head, name)
        if wrong is not None and (name in request.profile.hub.files or wrong.code == "lfs-pointer"):
            raise wrong
    if {CONFIG_FILE, MODEL_FILE} <= set(names):
        read_checkpoint_files(request.source, request.profile.geometry)


def _hash(record: ClientRecord, effects: Effects) -> LockedFile:
    """Return a file with its digest, which is the one that its client recorded."""
    total, done = record.path.stat().st_size, 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        effects.report(Progress(phase="check", path=record.name, done=min(done, total), total=total))

    size, sha256 = hash_file(record.path, tell)
    refuse_other_bytes(record, sha256, tell)
    return LockedFile(path=record.name, bytes=size, sha256=sha256, evidence=record.evidence)


def _lock_in_place(job: Job, files: list[LockedFile], request: AdoptRequest) -> FetchReport:
    old = _old_lock(job, files)
    lock = old or make_lock(repo=job.profile.hub.repo, commit=job.commit, adopted=True, files=files)
    if not request.dry_run and old is None:
        with hold_staging(job.out):
            write_lock(job.out, lock)
    action: Action = "verified" if old is not None else "planned" if request.dry_run else "adopted"
    done = [FileReport(path=f.path, bytes=f.bytes, sha256=f.sha256, action=action) for f in files]
    return make_report(job, done, lock=None if request.dry_run else lock)


def _old_lock(job: Job, files: list[LockedFile]) -> CheckpointLock | None:
    """Return a lock that is there and says the same; without ``force`` one that says otherwise is refused."""
    try:
        old = read_lock(job.out)
    except MissingError:
        return None
    except CorruptError:
        if job.force:
            return None
        raise
    new = make_lock(repo=job.profile.hub.repo, commit=job.commit, adopted=True, files=files)
    if _content(old) == _content(new):
        stated = [file.evidence for file in old.files if file.evidence is not None]
        # Evidence that has changed since is locked anew; a fetched lock says more than any adopted one.
        return old if not old.adopted or not stated or old.files == new.files else None
    if job.force:
        return None
    raise IdentityError(
        "the folder has a lock that says otherwise",
        where=str(job.out / LOCK_NAME),
        expected=f"{old.repo} @ {old.commit}, {len(old.files)} files, digest {old.digest}",
        found=f"{new.repo} @ {new.commit}, {len(new.files)} files, digest {new.digest}",
        hint="run forgepack fetch --offline --out to see what differs, or replace the lock with --force",
        code="lock-differs",
    )


def _content(lock: CheckpointLock) -> tuple[str, str, tuple[LockedFile, ...]]:
    return lock.repo, lock.commit, tuple(replace(file, evidence=None) for file in lock.files)
