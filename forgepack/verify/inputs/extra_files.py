"""What a verification is given beside the pair: attestations, evidence, a list of withdrawn digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forgepack.artifacts.attestation import AttestationFile, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraFiles:
    """Files that were read already; ``denied`` maps a digest to the reason why it was withdrawn."""

    attestations: tuple[AttestationFile, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    denied: Mapping[str, str] = field(default_factory=dict)
