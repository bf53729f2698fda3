"""Attesting a drafter package for a second target: described by content, proven by the verifier, bound to evidence.

The attestation that would be written is checked with the pair by every rule of the verifier first: what is written
is what a later verification passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgepack import __version__
from forgepack.artifacts.attestation import KIND, Evidence, own_digest, parse_attestation
from forgepack.artifacts.target import read_target
from forgepack.errors import MissingError, UsageError
from forgepack.facts.fact import differences
from forgepack.facts.target import target_record
from forgepack.json_values import lookup
from forgepack.profile import Profile
from forgepack.verify.checks.drafter_record import drafter_record
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.sources import Sources
from forgepack.verify.open_pair import OpenPair

NAME = "attestation"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestInputs:
    """A package and a second target, the evidence, and how deep the pair is verified."""

    sources: Sources
    profile: Profile
    evidence: Evidence
    depth: Depth
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestResult:
    """The attestation, None where it was refused, and the verification that says why.

    ``path`` is the file that it was written to, None where nobody asked for one.
    """

    attestation: Mapping[str, Any] | None
    report: Report
    path: Path | None = None


def attest(inputs: AttestInputs, *, progress: Callable[[str], None] | None = None) -> AttestResult:
    """Return the attestation of a pair if the verifier passes the pair with it.

    Raises UsageError where the package was emitted for this very target, and the readers' errors of the target.
    """
    pair = _pair(inputs, ExtraFiles(evidence=(inputs.evidence,)))
    complete = (pair.binding, pair.sidecar, pair.asset, pair.config)
    if inputs.evidence.faults or not all(part.available for part in complete):
        return AttestResult(attestation=None, report=verify(pair, progress=progress))
    found = make_attestation(pair, inputs.evidence)
    given = ExtraFiles(attestations=(parse_attestation(found, NAME),), evidence=(inputs.evidence,))
    report = verify(_pair(inputs, given), progress=progress)
    return AttestResult(attestation=found if report.verdict == "pass" else None, report=report)


def _pair(inputs: AttestInputs, given: ExtraFiles) -> Pair:
    return OpenPair(replace(inputs.sources, extra_files=given), inputs.profile, inputs.depth, seconds=inputs.seconds)


def make_attestation(pair: Pair, evidence: Evidence) -> dict[str, Any]:
    """Return what an attestation of this pair says, every file of the target hashed; it proves nothing by itself."""
    target = read_target(pair.sources.target)
    if target.head is None:
        where = str(target.paths.build)
        raise MissingError("the target's export is missing", where=where, hint="name it with --target-export")
    described = target_record(target, pair.profile.geometry)
    own = pair.binding.value.get("target")
    unbound = {"model_files"} if lookup(own, "model_files") is None else set()
    if not [path for path, _, _ in differences(own, described) if path not in unbound]:
        raise UsageError(
            "the package was emitted for this target: there is nothing to attest",
            where=pair.sources.named["target"] if "target" in pair.sources.named else str(target.paths.build),
            hint="forgepack verify passes the pair as it is",
        )
    drafter = drafter_record(pair)
    # Of a report about other drafters the last one stands here, and is refused as another package's evidence.
    shown = evidence.shows.get(drafter["sha256"]) or list(evidence.shows.values())[-1]
    raw: dict[str, Any] = {
        "schema": KIND.schema,
        "tool": {"name": "forgepack", "version": __version__},
        "profile": {"name": pair.profile.name, "sha256": pair.profile.digest},
        "drafter": drafter,
        "target": described,
        "evidence": {"sha256": evidence.sha256, **shown},
    }
    return {**raw, "sha256": own_digest(raw)}
