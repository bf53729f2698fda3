"""A published release checked at its commit by the hub's own digests, without downloading the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from forgepack.artifacts.lock import is_repo
from forgepack.artifacts.release_json import RELEASE_FILE, read_release
from forgepack.artifacts.release_record import RECORD_FILE, SUMS_FILE
from forgepack.disk.temporary import temporary_folder
from forgepack.errors import ForgepackError, NothingToVerifyError, UsageError
from forgepack.hub.client import HubClient, HubSettings
from forgepack.hub.fetch import PinnedSource
from forgepack.hub.report import Effects, Progress, RetryPolicy
from forgepack.hub.retry import ask_again
from forgepack.hub.revision import check_revision
from forgepack.profile import Profile
from forgepack.release.published.sparse_copy import SparseCopy
from forgepack.verify.bundle import Bundle, find_bundle
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.policy.acceptance import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRelease:
    """A release on the hub and how to look at it; ``named`` are further files, by their roles."""

    repo: str
    commit: str
    plain: bool = False
    depth: Depth = Depth.HASH
    strict: bool = False
    policy: Policy | None = None
    extra_files: ExtraFiles = field(default_factory=ExtraFiles)
    named: Mapping[str, str] = field(default_factory=dict)


def name_release(text: str, profile: Profile, settings: HubSettings) -> tuple[str, str]:
    """Split REPO@COMMIT; UsageError for anything but an owner/name and a full commit.

    For a branch or tag the hub is asked once for the commit that it names now, to name it in the hint.
    """
    repo, separator, commit = text.partition("@")
    if not separator or not is_repo(repo):
        hint = "for example --hub owner/name@COMMIT"
        raise UsageError("--hub takes REPO@COMMIT", expected="owner/name@COMMIT", found=text[:200], hint=hint)

    def look_up(revision: str) -> str | None:
        with HubClient(settings) as client:
            return client.name_commit(repo, revision)

    return repo, check_revision(commit, profile, look_up, option=f"--hub {repo}@", where="--hub")


def verify_published(
    wanted: PublishedRelease,
    profile: Profile,
    *,
    settings: HubSettings,
    effects: Effects,
    progress: Callable[[str], None] | None = None,
    policy: RetryPolicy | None = None,
) -> Report:
    """Verify the release at its commit: headers as they are, all digests as the hub records them.

    Raises HubError where the hub fails, NothingToVerifyError for a commit without release.json, UsageError for a
    depth that needs the weights.
    """
    if wanted.depth > Depth.HASH:
        raise UsageError(
            "--hub looks at headers and at the hub's digests",
            expected="--depth header or hash",
            found=f"--depth {wanted.depth.label}",
            hint=f"download {wanted.repo} at {wanted.commit}, then forgepack verify --bundle DIR",
        )
    with HubClient(settings) as client, temporary_folder() as folder:
        source = PinnedSource(client=client, repo=wanted.repo, commit=wanted.commit)
        copy = SparseCopy(
            source=source,
            folder=folder,
            profile=profile,
            effects=effects,
            policy=policy or RetryPolicy(),
        )
        _download(copy, wanted)
        sources = find_bundle(copy.folder, plain=wanted.plain)
        roles = {"hub": f"{wanted.repo}@{wanted.commit}", **wanted.named}
        named = replace(sources, named=roles, extra_files=wanted.extra_files)
        bundle = Bundle(named, profile, wanted.depth, known=copy.known)
        return verify(bundle, strict=wanted.strict, progress=progress, policy=wanted.policy)


def _download(copy: SparseCopy, wanted: PublishedRelease) -> None:
    """Fill the copy: release.json first, then what it lists."""
    copy.effects.report(Progress(phase="list"))
    client = copy.source.client
    listed = ask_again(
        lambda: client.list_files(wanted.repo, wanted.commit), effects=copy.effects, policy=copy.policy
    )
    if RELEASE_FILE not in listed:
        raise NothingToVerifyError(
            "the commit holds no release",
            where=f"{wanted.repo} @ {wanted.commit}",
            expected=RELEASE_FILE,
            found=", ".join(sorted(listed)[:5]) or "no files",
            hint="name the repository that forgepack bundle's folder was uploaded to",
        )
    names = {RECORD_FILE, SUMS_FILE}
    try:
        release, _ = read_release(copy.fetch(listed[RELEASE_FILE]))
    except ForgepackError as err:
        if err.exit_code != 4:
            raise
        release = None  # reported by the rule that owns the fault
    if release is not None:
        names |= {file.path for file in release.files if not (wanted.plain and file.component == "drafter")}
    copy.fill(listed, names)
    root = "model" if release is None else release.model_path
    embedding = copy.folder / root / "embed_tokens_fp16.npy"
    if embedding.exists() and not wanted.plain:
        copy.fill_row(embedding, copy.profile.geometry.mask_token)
