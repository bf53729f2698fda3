"""A recipe as it is asked for: paths and choices, read and checked into what a build runs."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path

from forgepack.artifacts.files import require_file
from forgepack.artifacts.target_parts import TargetParts, find_target
from forgepack.coreai_backend.asset_writer import FIXED_DATE
from forgepack.profile import Profile
from forgepack.quantize.recipe import Options
from forgepack.release.bundle.inputs import find_upstream
from forgepack.release.recipe.inputs import BuildRecipe, check_commit
from forgepack.release.verification.run import Acceptance, check_bounds, read_accepting
from forgepack.verify.findings.report import Chosen, Depth


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """One release to be made: where everything is, and what each step may choose.

    ``commit`` must be the one that the profile pins, where it is given. A build accepts by ``waivers`` (which need
    ``today``), ``attestations`` and ``deny``, and by nothing else. ``offline`` takes the checkpoint as its lock says.
    """

    checkpoint: Path
    traces: Path
    target: TargetParts
    output: Path
    work: Path
    held_out: Path | None = None
    commit: str | None = None
    documents: Path | None = None
    export: bool = True
    upstream_id: str | None = None
    upstream_revision: str | None = None
    quantize: Options = field(default_factory=Options)
    depth: Depth = Depth.LINEAGE
    strict: bool = False
    seconds: float = 600.0
    created: int = FIXED_DATE
    offline: bool = False
    waivers: Path | None = None
    attestations: tuple[Path, ...] = ()
    deny: tuple[Path, ...] = ()
    today: datetime.date | None = None
    options: tuple[Chosen, ...] = ()


def make_recipe(request: BuildRequest, profile: Profile) -> BuildRecipe:
    """Return the recipe of a request; UsageError for what is not there, not valid, or names another commit."""
    check_commit(request.commit, profile)
    check_bounds(request.seconds)
    for path in filter(None, (request.traces, request.held_out)):
        require_file(path)
    accepting = read_accepting(
        Acceptance(
            waivers=request.waivers,
            attestations=request.attestations,
            deny=request.deny,
            today=request.today,
        )
    )
    return BuildRecipe(
        profile=profile,
        checkpoint=request.checkpoint,
        traces=request.traces,
        held_out=request.held_out,
        target=find_target(request.target),
        root=request.target.root,
        upstream=find_upstream(profile, request.upstream_id, request.upstream_revision),
        output=request.output,
        work=request.work,
        documents=request.documents,
        export=request.export,
        quantize=request.quantize,
        depth=request.depth,
        strict=request.strict,
        created=request.created,
        offline=request.offline,
        seconds=request.seconds,
        policy=accepting.policy,
        extra_files=accepting.extra_files,
        files={role: Path(path) for role, path in accepting.named.items()},
        options=request.options,
    )
