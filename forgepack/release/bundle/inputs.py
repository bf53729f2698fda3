"""What a bundle is made of, from paths as they are named: folders that are there, a target, an upstream."""

from __future__ import annotations

from pathlib import Path

from forgepack.artifacts.target_parts import TargetParts, find_target
from forgepack.disk.places import interrupted
from forgepack.errors import UsageError
from forgepack.hub.revision import require_commit
from forgepack.profile import Profile, Upstream
from forgepack.release.bundle.inventory import BundleInputs


def open_bundle_inputs(  # noqa: PLR0913  (one keyword for each thing that may be named)
    drafter: Path,
    target: TargetParts,
    profile: Profile,
    *,
    documents: Path | None = None,
    export: bool = True,
    upstream_id: str | None = None,
    upstream_revision: str | None = None,
    allow_links: bool = False,
) -> BundleInputs:
    """Locate the parts of a bundle; UsageError for a folder that is not there or an upstream that nothing names."""
    for name, path in (("drafter", drafter), ("documents", documents)):
        if path is not None and not path.is_dir():
            raise interrupted(path) or UsageError(
                f"no such {name} folder", where=str(path), hint="forgepack emit writes a drafter"
            )
    upstream = find_upstream(profile, upstream_id, upstream_revision)
    return BundleInputs(
        drafter=drafter,
        target=find_target(target),
        root=target.root,
        upstream=upstream,
        documents=documents,
        export=export,
        allow_links=allow_links,
    )


def find_upstream(profile: Profile, ident: str | None, revision: str | None) -> Upstream:
    """Return what the options name, else the profile's; UsageError where neither names both."""
    pinned = profile.target.upstream
    if revision is not None:
        hint = "name the commit of the upstream checkpoint: --upstream-revision COMMIT"
        require_commit(revision, where="--upstream-revision", hint=hint)
    if ident is None and revision is None:
        if pinned is not None:
            return pinned
        hint = "give --upstream-id and --upstream-revision"
        raise UsageError("the profile does not specify the target's upstream", where=profile.name, hint=hint)
    if ident is None:
        ident = None if pinned is None else pinned.id
    if ident is None or revision is None:
        lacking = "--upstream-id" if ident is None else "--upstream-revision"
        raise UsageError(
            "an upstream is a name and a revision",
            expected="--upstream-id OWNER/NAME --upstream-revision COMMIT",
            found=f"no {lacking}",
            hint=f"add {lacking}",
        )
    return Upstream(id=ident, revision=revision)
