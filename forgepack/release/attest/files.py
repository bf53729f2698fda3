"""An attestation from paths to its file: the pair, the evidence, and where the statement is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from forgepack.canonical import dump_canonical
from forgepack.disk.places import Inputs, check_file
from forgepack.profile import Profile
from forgepack.release.attest.evidence import read_evidence
from forgepack.release.attest.make import AttestInputs, AttestResult
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import Sources

SUFFIX = ".attestation.json"


def open_attest_inputs(sources: Sources, evidence: Path, profile: Profile, depth: Depth) -> AttestInputs:
    """Read the evidence and return what is attested; UsageError where there is no such report."""
    read = read_evidence(evidence, "evidence")
    return AttestInputs(sources=sources, profile=profile, evidence=read, depth=depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationPlace:
    """Where an attestation goes: ``out``, or a file beside the package that is named after the target's export."""

    sources: Sources
    out: Path | None
    inputs: Inputs
    force: bool = False

    def check(self) -> None:
        """Raise UsageError where ``out`` may not be written: called before any work."""
        if self.out is not None:
            self._check(self.out)

    def find(self, result: AttestResult) -> Path:
        """Return the file of an attestation that was made; UsageError where it may not be written."""
        assert result.attestation is not None
        path = self.out or self._default(str(result.attestation["target"]["export"]))
        self._check(path)
        return path

    def _default(self, export: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", export)[:100]
        return self.sources.drafter.parent / f"{self.sources.drafter.name}.{name}{SUFFIX}"

    def _check(self, path: Path) -> None:
        check_file(path, force=self.force, inputs={**self.sources.roots(), **self.inputs})


def attestation_bytes(result: AttestResult) -> bytes:
    """Return an attestation as it is written."""
    assert result.attestation is not None
    return dump_canonical(result.attestation)
