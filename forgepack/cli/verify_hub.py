"""``forgepack verify --hub``: settings of the hub and progress for a published release."""

from __future__ import annotations

import os
from typing import Any

from forgepack.cli.common import Console
from forgepack.cli.fetch_progress import hub_effects
from forgepack.hub import HubSettings
from forgepack.profile import Profile
from forgepack.release.published.verify import PublishedRelease, name_release, verify_published
from forgepack.release.verification.run import Accepting
from forgepack.verify.findings.report import Depth, Report

_LONGEST_WAIT = 30.0


def verify_hub(
    profile: Profile, options: dict[str, Any], *, depth_given: bool, accepting: Accepting, console: Console
) -> Report:
    """Verify the release that --hub names; the default depth is the deepest that needs no weights."""
    settings = HubSettings(
        endpoint=os.environ.get("HF_ENDPOINT") or None, timeout=min(options["timeout"], _LONGEST_WAIT)
    )
    repo, commit = name_release(options["hub"], profile, settings)
    wanted = PublishedRelease(
        repo=repo,
        commit=commit,
        plain=options["plain"],
        depth=Depth[options["depth"].upper()] if depth_given else Depth.HASH,
        strict=options["strict"],
        policy=accepting.policy,
        extra_files=accepting.extra_files,
        named=accepting.named,
    )
    with hub_effects(console) as effects:
        return verify_published(wanted, profile, settings=settings, effects=effects, progress=console.detail)
