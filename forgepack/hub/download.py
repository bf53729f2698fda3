"""From records to files: land what a folder lacks, publish all of it at once, lock it, and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forgepack.artifacts.lock import CheckpointLock, Evidence, LockedFile, make_lock
from forgepack.disk.space import closest_folder, demand_space
from forgepack.hub.client import HubFile
from forgepack.hub.plan import Item, check_record, make_plan, needed_bytes
from forgepack.hub.report import Action, Effects, FetchReport, FileReport, Phase, Progress, RetryPolicy
from forgepack.hub.staging import Staging, hold_staging
from forgepack.hub.transfer import Source, Transfer
from forgepack.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What ``out`` is to hold: the profile's files of ``commit``; ``adopted`` goes into the lock.

    ``old`` is a lock of the same commit that is there and must not be contradicted. ``evidence`` is, by path, what
    stands behind an adopted file; fetched ones are compared with the hub's record.
    """

    profile: Profile
    out: Path
    commit: str
    adopted: bool = False
    force: bool = False
    old: CheckpointLock | None = None
    evidence: Mapping[str, Evidence] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The repository and commit, for messages."""
        return f"{self.profile.hub.repo} @ {self.commit}"


def download_files(
    job: Job, wanted: list[HubFile], *, source: Source, effects: Effects, policy: RetryPolicy
) -> FetchReport:
    """Bring ``wanted`` from ``source`` into the folder, then the lock; on an error what has landed waits in parts."""
    with hold_staging(job.out) as staging:
        staging.sweep(wanted)
        items = make_plan(wanted, job.out, force=job.force, profile=job.profile, effects=effects)
        needed, free = needed_bytes(items), effects.free(job.out)
        demand_space(needed, free, job.out)
        phase: Phase = "copy" if job.adopted else "download"
        transfer = Transfer(source, job.profile, effects=effects, policy=policy, phase=phase)
        done = [_land(item, staging, transfer, job) for item in items]
        lock = make_lock(
            repo=job.profile.hub.repo,
            commit=job.commit,
            adopted=job.adopted,
            files=[
                LockedFile(path=f.path, bytes=f.bytes, sha256=f.sha256 or "", evidence=job.evidence.get(f.path))
                for f in done
            ],
        )
        if job.old is not None:
            check_record(((f.path, f.bytes, f.sha256) for f in lock.files), job.old, job.where)
        effects.report(Progress(phase="publish"))
        staging.publish([i.file for i in items if i.sha256 is None], lock)
    return make_report(job, done, lock=lock, needed=needed, free=free)


def _land(item: Item, staging: Staging, transfer: Transfer, job: Job) -> FileReport:
    file = item.file
    if item.sha256 is not None:
        return FileReport(path=file.path, bytes=file.size, sha256=item.sha256, action="kept")
    landed = transfer.land(file, staging.part(file))
    if job.adopted:
        return FileReport(path=file.path, bytes=file.size, sha256=landed.sha256, action="copied")
    action: Action = "resumed" if landed.kept else "downloaded"
    return FileReport(path=file.path, bytes=file.size, sha256=landed.sha256, action=action, received=landed.received)


def plan_files(job: Job, wanted: list[HubFile], effects: Effects) -> FetchReport:
    """Report what ``download_files`` would do; nothing is written."""
    items = make_plan(wanted, job.out, force=job.force, profile=job.profile, effects=effects)
    files = [
        FileReport(
            path=i.file.path,
            bytes=i.file.size,
            sha256=i.sha256 or i.file.sha256,
            action="planned" if i.sha256 is None else "kept",
        )
        for i in items
    ]
    folder = job.out if job.out.is_dir() else closest_folder(job.out)
    needed, free = needed_bytes(items), effects.free(folder)
    return make_report(job, files, lock=None, needed=needed, free=free)


def verified_report(job: Job, lock: CheckpointLock) -> FetchReport:
    """Report a folder whose every byte has been compared with its lock."""
    files = [FileReport(path=f.path, bytes=f.bytes, sha256=f.sha256, action="verified") for f in lock.files]
    return make_report(job, files, lock=lock)


def make_report(
    job: Job,
    files: Iterable[FileReport],
    *,
    lock: CheckpointLock | None,
    needed: int = 0,
    free: int | None = None,
) -> FetchReport:
    """Put a report together, with the notes that a person should read."""
    adopted = job.adopted if lock is None else lock.adopted
    notes = []
    if job.commit != job.profile.hub.commit:
        notes.append(
            f"{job.commit} is not the commit that the profile {job.profile.name} pins "
            f"({job.profile.hub.commit}): every command that checks by this profile will refuse the checkpoint"
        )
    if adopted:
        notes.append("adopted: the bytes are recorded, but were not compared with the hub's record of the commit")
        notes += _evidence_notes({f.path: f.evidence for f in lock.files} if lock is not None else job.evidence)
    return FetchReport(
        root=job.out,
        repo=job.profile.hub.repo,
        commit=job.commit,
        adopted=adopted,
        files=tuple(files),
        lock=lock,
        dry_run=lock is None,
        needed=needed,
        free=free,
        notes=tuple(notes),
    )


_EVIDENCE = {
    "client": "agrees with the client's record",
    "commit": "agrees with the commit of the client's record, which has no digest",
    "digest": "agrees with the digest of the client's record, which names no commit",
    "none": "no record of a client",
}


def _evidence_notes(evidence: Mapping[str, Evidence | None]) -> list[str]:
    """Return one line for each kind of evidence, with the files that have it."""
    named = {kind: [path for path, found in evidence.items() if found == kind] for kind in _EVIDENCE}
    return [f"{_EVIDENCE[kind]}: {', '.join(paths)}" for kind, paths in named.items() if paths]
