"""An attestation: a drafter package, a second target, and the evidence that the pair was measured by.

It is outside the package, whose bytes stay as they are, and names all three by digests. Its own digest covers the
rest of it, so that an edited one is found; it is not a signature, and does not say who wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.sidecar import with_model_files
from forgepack.canonical import digest_json, parse_object
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, ForgepackError, LimitError, UnreadableError, UsageError
from forgepack.limits import ATTESTATION_BYTES


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an attestation of version 1 in today's form: it could not bind files of model/."""
    return {**raw, "target": with_model_files(raw["target"])}


KIND = DocumentKind(
    name="forgepack.attestation",
    title="attestation",
    remake="forgepack attest attests the pair again",
    code="attestation",
    version=2,
    upgrade=_from_version_1,
    form="attestation",
)
MAX_BYTES = ATTESTATION_BYTES
MAX_FAULTS = 20
_REPLAYED = ("embedding", "head", "tokenizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """An attestation whose form is right; ``name`` starts the places that reports show, ``older`` marks version 1."""

    name: str
    raw: Mapping[str, Any]
    older: bool = False

    @property
    def sha256(self) -> str:
        """The digest that it states of the rest of itself."""
        return str(self.raw["sha256"])

    @property
    def drafter(self) -> Mapping[str, Any]:
        """The package, by the digests that can be had from its headers."""
        found: Mapping[str, Any] = self.raw["drafter"]
        return found

    @property
    def target(self) -> Mapping[str, Any]:
        """The attested target, described as a sidecar describes its own."""
        found: Mapping[str, Any] = self.raw["target"]
        return found

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Digest of the evidence, and what it showed."""
        found: Mapping[str, Any] = self.raw["evidence"]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationFile:
    """A file that was named as an attestation: the attestation if it is one, and every fault of it."""

    name: str
    attestation: Attestation | None
    faults: tuple[ForgepackError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A file that was named as evidence. ``shows`` maps a drafter's digest to what the report says of it.

    ``sha256`` is empty where the file could not be read. ``faults`` are (where, expected, found) of a report that
    counts for nothing: it does not parse, names no workload, or contradicts itself.
    """

    name: str
    sha256: str
    shows: Mapping[str, Mapping[str, Any]]
    faults: tuple[tuple[str, str, str], ...]


def read_attestation(path: Path, name: str) -> AttestationFile:
    """Read an attestation; ``name`` stands for it in places.

    Raises UsageError when there is no such file; UnreadableError and LimitError where it can't be read.
    """
    if not path.exists():
        hint = "forgepack attest writes one"
        raise UsageError("no such attestation", where=str(path), hint=hint)
    try:
        raw = parse_object(read_bounded(path, MAX_BYTES), where=name)
    except (UnreadableError, LimitError):
        raise
    except CorruptError as err:
        return AttestationFile(name=name, attestation=None, faults=(err,))
    return parse_attestation(raw, name)


def parse_attestation(raw: Mapping[str, Any], name: str) -> AttestationFile:
    """Check the form of an attestation, and the digest that it states of itself."""
    refusal = KIND.refusal(raw, where=name)
    if refusal is not None:
        return AttestationFile(name=name, attestation=None, faults=(refusal,))
    current = KIND.current(raw, where=name)
    faults = [KIND.error(fault, where=name) for fault in KIND.faults(current, older=KIND.is_older(raw))[:MAX_FAULTS]]
    if faults:
        return AttestationFile(name=name, attestation=None, faults=tuple(faults))
    found, stated = own_digest(raw), str(raw.get("sha256"))
    what, place = "the attestation was edited", f"{name}: sha256"
    edited = CorruptError(what, where=place, expected=found, found=stated, code="attestation-edited")
    attestation = Attestation(name=name, raw=current, older=KIND.is_older(raw))
    return AttestationFile(name=name, attestation=attestation, faults=() if found == stated else (edited,))


def own_digest(raw: Mapping[str, Any]) -> str:
    """Return the digest of everything in an attestation but the digest itself."""
    return digest_json({key: value for key, value in raw.items() if key != "sha256"})


def replay_target_sha256(target: Mapping[str, Any]) -> str | None:
    """Return the digest under which a replay's report knows a recorded target; None where it has no export."""
    parts = {name: target.get(name) for name in _REPLAYED}
    if not all(isinstance(part, Mapping) for part in parts.values()):
        return None
    return digest_json({f"{name}_sha256": part.get("sha256") for name, part in parts.items()})  # type: ignore[union-attr]
