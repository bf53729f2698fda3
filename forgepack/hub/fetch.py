"""``forgepack fetch``: a checkpoint at one commit into one folder, or the proof that it is there already."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, read_lock
from forgepack.artifacts.locked import Difference, byte_differences, refuse_differences, refuse_wrong_files
from forgepack.disk.failures import writing
from forgepack.disk.places import check_ground, check_inputs
from forgepack.errors import CorruptError, IdentityError, MissingError, OutputError, UsageError
from forgepack.hub.client import Answer, HubClient, HubFile, HubSettings
from forgepack.hub.download import Job, download_files, plan_files, verified_report
from forgepack.hub.plan import check_pin, check_record, select_files
from forgepack.hub.report import Effects, FetchReport, Progress, RetryPolicy
from forgepack.hub.retry import ask_again
from forgepack.hub.revision import check_revision
from forgepack.hub.staging import STAGING_NAME, hold_staging
from forgepack.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What is wanted: the profile's files at ``revision`` (None: the profile's commit) in the folder ``out``.

    Another commit than the profile's is taken only when it is given here; the lock records it, and every reader
    refuses it until a profile pins it. ``force`` lets files and a lock that differ be replaced.
    """

    profile: Profile
    out: Path
    revision: str | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSource:
    """A HubClient bound to one repository and commit: the source of a Transfer."""

    client: HubClient
    repo: str
    commit: str

    def open(self, file: HubFile, offset: int) -> AbstractContextManager[Answer]:
        """Yield the file's bytes from ``offset`` on."""
        return self.client.open(self.repo, self.commit, file, offset)


def fetch_checkpoint(
    request: FetchRequest, *, settings: HubSettings, effects: Effects, policy: RetryPolicy | None = None
) -> FetchReport:
    """Bring the folder to the pinned bytes, lock it, and report; nothing is asked of the hub if all is there.

    Raises UsageError (revision, profile), IdentityError (other bytes, lock or known-bad digest), HubError
    (hub, network) and OutputError (disk, permission, another run). After an error the folder has no new lock; what
    has landed waits in the hidden staging folder and the next run goes on from there.
    """
    profile = request.profile
    check_pin(profile)

    def look_up(revision: str) -> str | None:
        with HubClient(settings) as client:
            return client.name_commit(profile.hub.repo, revision)

    commit = check_revision(request.revision, profile, look_up)
    check_out(request.out)
    old = _old_lock(request, commit)
    job = Job(profile=profile, out=request.out, commit=commit, force=request.force, old=old)
    if old is not None and not _differences(request, old, effects) and _covers(old, profile):
        _tidy(request)
        return verified_report(job, old)
    policy = policy or RetryPolicy()
    with HubClient(settings) as client:
        effects.report(Progress(phase="list"))
        listed = ask_again(lambda: client.list_files(profile.hub.repo, commit), effects=effects, policy=policy)
        wanted = select_files(profile, listed, job.where)
        if old is not None:
            check_record(((f.path, f.size, f.sha256) for f in wanted), old, job.where)
        if request.dry_run:
            return plan_files(job, wanted, effects)
        source = PinnedSource(client=client, repo=profile.hub.repo, commit=commit)
        return download_files(job, wanted, source=source, effects=effects, policy=policy)


def _tidy(request: FetchRequest) -> None:
    """Remove what a run left that was killed after it had locked the folder."""
    if (request.out / STAGING_NAME).is_dir() and not request.dry_run:
        with hold_staging(request.out) as staging:
            staging.sweep(())


def verify_checkpoint(request: FetchRequest, effects: Effects) -> FetchReport:
    """Compare every byte of the folder with its lock, and the lock with the request; no network, no writing."""
    check_pin(request.profile)
    commit = check_revision(request.revision, request.profile)
    if not request.out.is_dir():
        raise UsageError("there is no such folder", where=str(request.out), code="no-folder")
    lock = read_lock(request.out)
    _refuse_other(request, lock, commit)
    refuse_wrong_files(lock.files, request.profile, where=str(request.out / LOCK_NAME))
    refuse_differences(request.out, byte_differences(request.out, lock, check_listener(lock, effects)))
    if not _covers(lock, request.profile):
        raise IdentityError(
            "the lock does not cover a file that the profile requires",
            where=str(request.out / LOCK_NAME),
            expected=", ".join(sorted(request.profile.hub.files)),
            found=", ".join(f.path for f in lock.files),
            code="lock-files",
        )
    return verified_report(Job(profile=request.profile, out=request.out, commit=commit), lock)


def check_out(out: Path, source: Path | None = None) -> None:
    """Raise where no checkpoint may be written: a protected folder, ``source`` itself, or what is not a folder."""
    check_ground(out)
    check_inputs(out, {"the folder that is adopted": source})
    with writing(out):
        if out.exists() and not out.is_dir():
            raise OutputError(
                "the output is not a folder", where=str(out), hint="choose another --out", code="not-writable"
            )


def _old_lock(request: FetchRequest, commit: str) -> CheckpointLock | None:
    """Return the folder's lock of the commit asked for; without ``force`` any other is refused.

    An adopted lock counts as none: a fetch compares its files with the hub's record and locks them anew.
    """
    try:
        lock = read_lock(request.out)
        _refuse_other(request, lock, commit)
        refuse_wrong_files(lock.files, request.profile, where=str(request.out / LOCK_NAME))
    except MissingError:
        return None
    except (CorruptError, IdentityError):
        if not request.force:
            raise
        return None
    return None if lock.adopted else lock


def _refuse_other(request: FetchRequest, lock: CheckpointLock, commit: str) -> None:
    for key, expected, found in (
        ("repo", request.profile.hub.repo, lock.repo),
        ("commit", commit, lock.commit),
    ):
        if expected != found:
            raise IdentityError(
                f"the folder is locked to another {key}",
                where=str(request.out / LOCK_NAME),
                expected=expected,
                found=found,
                hint="choose another folder, or let fetch replace its files with --force",
                code=f"lock-{key}",
            )


def _differences(request: FetchRequest, lock: CheckpointLock, effects: Effects) -> tuple[Difference, ...]:
    """Return what differs from the lock; without ``force`` only missing files may."""
    found = byte_differences(request.out, lock, check_listener(lock, effects))
    if not request.force and any(d.kind != "missing" for d in found):
        refuse_differences(request.out, found)
    return found


def _covers(lock: CheckpointLock, profile: Profile) -> bool:
    return set(profile.hub.files) <= {f.path for f in lock.files}


class check_listener:  # noqa: N801 - used like a function
    """Turns the counts of a running hash over a lock's files into Progress."""

    def __init__(self, lock: CheckpointLock, effects: Effects) -> None:
        self._sizes = {f.path: f.bytes for f in lock.files}
        self._done = dict.fromkeys(self._sizes, 0)
        self._report = effects.report

    def __call__(self, path: str, count: int) -> None:
        """Take ``count`` more bytes of ``path``."""
        self._done[path] += count
        self._report(Progress(phase="check", path=path, done=self._done[path], total=self._sizes[path]))
