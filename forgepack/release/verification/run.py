"""A verification from paths to its report: what the owner of a gate accepts is read, then the rules run."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from forgepack.errors import UsageError
from forgepack.profile import Profile
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.inputs.sources import Sources
from forgepack.verify.policy.acceptance import Policy
from forgepack.verify.policy.selection import parse_selection

if TYPE_CHECKING:
    from forgepack.artifacts.attestation import Evidence

# A day is longer than any reading of an asset: more is a mistake.
MAX_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What the owner of a gate accepts or demands; the default accepts nothing and leaves no rule out.

    ``attestations`` pass a drafter with a second target, ``evidence`` are the reports that they were made of,
    ``deny`` are lists of withdrawn digests. ``waivers`` names accepted findings until a day, ``baseline`` the JSON
    report of an earlier build. ``select`` and ``ignore`` are starts of rules' ids. ``exit_zero`` makes a refusal end
    with 0 where no rule refuses that is never waived. ``today`` decides which waivers have expired, and is required
    with ``waivers``: a library that read the clock could not be asked about another day.
    """

    attestations: tuple[Path, ...] = ()
    evidence: tuple[Path, ...] = ()
    deny: tuple[Path, ...] = ()
    waivers: Path | None = None
    baseline: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exit_zero: bool = False
    today: datetime.date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    """The files of an Acceptance as read; ``named`` are the roles and paths that a report lists."""

    policy: Policy
    extra_files: ExtraFiles
    named: Mapping[str, str]

    def add_to(self, sources: Sources) -> Sources:
        """Return sources that know of what was given."""
        return replace(sources, extra_files=self.extra_files, named={**sources.named, **self.named})


def read_accepting(acceptance: Acceptance, *, of_pair: bool = True) -> Accepting:
    """Read every file that is named; ``of_pair`` says that a drafter and a target are verified, not a release.

    Raises UsageError for a file that is not there or not valid, with the place, and for attestations of a release.
    """
    from forgepack.artifacts.attestation import read_attestation
    from forgepack.artifacts.deny import read_deny_list

    policy = _read_policy(acceptance)
    attested = _numbered("attestation", acceptance.attestations)
    shown, deny = _numbered("evidence", acceptance.evidence), _numbered("deny", acceptance.deny)
    if not of_pair and (attested or shown):
        found = "--attestation" if attested else "--evidence"
        raise UsageError("an attestation is of a drafter and a target", expected="DRAFTER and --target", found=found)
    denied: dict[str, str] = {}
    for path in deny.values():
        denied |= read_deny_list(path).reasons
    given = ExtraFiles(
        attestations=tuple(read_attestation(path, name) for name, path in attested.items()),
        evidence=tuple(_evidence(path, name) for name, path in shown.items()),
        denied=denied,
    )
    optional = {"waivers": acceptance.waivers, "baseline": acceptance.baseline}
    single = {role: path for role, path in optional.items() if path is not None}
    files = {**attested, **shown, **deny, **single}
    return Accepting(policy=policy, extra_files=given, named={role: path.as_posix() for role, path in files.items()})


def _read_policy(acceptance: Acceptance) -> Policy:
    from forgepack.verify.policy.baseline import read_baseline
    from forgepack.verify.policy.waivers import read_waivers

    waivers, baseline, today = acceptance.waivers, acceptance.baseline, acceptance.today
    if waivers is not None and today is None:
        hint = "give today, the day in UTC on which waivers must still hold"
        raise UsageError("waivers expire, and the day is not named", where=str(waivers), hint=hint)
    return Policy(
        selection=parse_selection(acceptance.select, acceptance.ignore),
        waivers=None if waivers is None or today is None else read_waivers(waivers, today),
        baseline=None if baseline is None else read_baseline(baseline),
        exit_zero=acceptance.exit_zero,
    )


def _evidence(path: Path, name: str) -> Evidence:
    """Read a replay's report; replay is imported for one alone."""
    from forgepack.release.attest.evidence import read_evidence

    return read_evidence(path, name)


def _numbered(role: str, paths: Iterable[Path]) -> dict[str, Path]:
    """Return a role for each of several files: attestation, attestation-2, and so on."""
    return {role if number == 0 else f"{role}-{number + 1}": path for number, path in enumerate(paths)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a verification is done: its depth, whether warnings refuse, bounds, and what is accepted.

    ``seconds`` bounds each reading or run of an asset; ``blocks`` is about how many are run at depth run, None all.
    """

    profile: Profile
    accepting: Accepting
    depth: Depth = Depth.LINEAGE
    strict: bool = False
    seconds: float = 600.0
    blocks: int | None = None


def verify_sources(sources: Sources, how: Judging, *, progress: Callable[[str], None] | None = None) -> Report:
    """Verify a pair, or a whole release where the sources are a bundle's; ``progress`` gets each rule's id.

    Never raises for what an input holds: that is a finding. UsageError for bounds that are none.
    """
    from forgepack.verify.bundle import Bundle
    from forgepack.verify.engine import verify
    from forgepack.verify.open_pair import OpenPair

    check_bounds(how.seconds, how.blocks)
    kind = OpenPair if sources.bundle is None else Bundle
    pair = kind(how.accepting.add_to(sources), how.profile, how.depth, seconds=how.seconds, blocks=how.blocks)
    return verify(pair, strict=how.strict, progress=progress, policy=how.accepting.policy)


def check_bounds(seconds: float, blocks: int | None = None) -> None:
    """Raise UsageError for a time of each reading, or a number of blocks to run, that is out of range."""
    if not 0 < seconds <= MAX_SECONDS:
        expected = f"over 0, at most {MAX_SECONDS:.0f} seconds"
        raise UsageError("the time for each reading is out of range", expected=expected, found=str(seconds))
    if blocks is not None and blocks < 1:
        raise UsageError("the number of blocks is out of range", expected="1 or more", found=str(blocks))
