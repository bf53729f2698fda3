"""The documents of the shipped schemas: a valid one of each, its reader, and what that refuses beyond its schema."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts import attestation, lock, quant_report, release_record
from forgepack.artifacts.manifest_fields import form_faults
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.target import read_manifest
from forgepack.canonical import dump_canonical
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError
from forgepack.profile import KIND as PROFILE
from forgepack.profile import Profile
from forgepack.release.recipe import lock as build_lock
from forgepack.release.replay import report as replay_report
from forgepack.release.replay.gate import policy as gate_policy
from forgepack.verify.inputs import readers as verify_readers
from forgepack.verify.policy import baseline
from fuzz.readers import READERS, Reader, seed_of, try_bytes
from fuzz.seeds import STEM, of_bundle, of_pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One kind of document under test.

    ``beyond`` are words, one of which an error names that the reader raises and the schema can't: of a field that
    another one contradicts, or of a value that no pattern can judge. ``signed`` brings its own digest up to date.
    """

    reader: Reader
    kind: DocumentKind | None = None
    beyond: tuple[str, ...] = ()
    signed: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def valid(self, pair: Path, profile: Profile) -> dict[str, Any]:
        """Return a valid document in today's form."""
        data = seed_of(self.reader, pair, profile)
        raw: dict[str, Any] = json.loads(data) if data.lstrip().startswith(b"{") else tomllib.loads(data.decode())
        return raw if self.kind is None else self.kind.current(raw, where="seed")

    def refusal(self, raw: dict[str, Any], folder: Path, profile: Profile) -> str | None:
        """Return the text of the error in which reading ends, None where it ends in a value."""
        error = try_bytes(self.reader, dump_canonical(raw), folder, profile)
        return None if error is None else f"{error.code} {error}"


def _manifest(path: Path, _profile: Profile) -> None:
    for place, expected, found in form_faults(read_manifest(path.parent).raw):
        raise CorruptError("a field has another form", where=place, expected=expected, found=found)


def _sidecar(path: Path, _profile: Profile) -> None:
    for fault in read_sidecar(path).faults():
        raise CorruptError("the sidecar is not valid", where=fault.path, expected=fault.expected, found=fault.found)


def _record(path: Path, _profile: Profile) -> None:
    for fault in release_record.KIND.faults(verify_readers.read_record(path)):
        raise release_record.KIND.error(fault, where="x")


def _signed(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "sha256": attestation.own_digest(raw)} if isinstance(raw.get("sha256"), str) else raw


DOCUMENTS: dict[str, Document] = {
    "attestation": Document(reader=READERS["attestation"], kind=attestation.KIND, signed=_signed),
    "build_lock": Document(reader=READERS["build_lock"], kind=build_lock.KIND),
    "checkpoint.lock": Document(
        reader=READERS["lock"], kind=lock.KIND, beyond=("path-escape", "case-collision", "evidence", "printable")
    ),
    "deny": Document(reader=READERS["deny"]),
    "gate_policy": Document(
        reader=Reader(file="policy.json", seed=READERS["policy"].seed, read=READERS["policy"].read),
        kind=gate_policy.KIND,
    ),
    "manifest": Document(
        reader=Reader(file="manifest.json", seed=READERS["manifest"].seed, read=_manifest), beyond=("path-escape",)
    ),
    "profile": Document(reader=READERS["profile"], kind=PROFILE, beyond=("hub.sha256",)),
    "quant_report": Document(reader=READERS["report"], kind=quant_report.KIND, beyond=("fingerprint",)),
    "release": Document(reader=READERS["release"], beyond=("path-escape",)),
    "release_record": Document(
        reader=Reader(file="forgepack.json", seed=of_bundle("forgepack.json"), read=_record), kind=release_record.KIND
    ),
    "replay": Document(
        reader=READERS["replay_report"], kind=replay_report.KIND, beyond=("REPORT-INCONSISTENT", "NULL-FIELD")
    ),
    "report": Document(reader=READERS["baseline"], kind=baseline.KIND),
    "sidecar": Document(reader=Reader(file="x.json", seed=of_pair(f"drafter/{STEM}.json"), read=_sidecar)),
    "timings": Document(reader=READERS["timings"]),
    "traces": Document(reader=READERS["traces_identity"]),
    "waivers": Document(reader=READERS["waivers"], beyond=("names no rule", "never waived", "no date", "twice")),
}
# What no command reads back, and what the options of the commands judge: tests/release/test_config.py.
WITHOUT_READER = {"dflash2_source", "diff", "gate", "inspect", "qwen_source", "forgepack_toml"}
