"""CTR, attestations: the target is the package's own, or one that it was measured with and attested for.

Nothing here says whether a target would draft well: a target that nobody has measured is "not attested", no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.artifacts.attestation import Attestation, replay_target_sha256
from forgepack.facts.fact import differences
from forgepack.json_values import lookup
from forgepack.verify.checks.drafter_record import drafter_record
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.target_record import differing_parts
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

NOT_ATTESTED = "not attested for this target"
_ATTEST = (
    "use the target that the package was emitted for; or measure this one with forgepack replay, and attest it with "
    "forgepack attest --evidence REPORT"
)
_AGAIN = "attest the pair again with forgepack attest"
_SHOWN = 8
# What a second target must share with the one that the package was emitted for: the same file, or the same content.
_SHARED: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "head": ("head.sha256", ("head.rows", "head.columns", "head.content_sha256")),
    "tokenizer": ("tokenizer.sha256", ("tokenizer.semantic_sha256",)),
    "mask row": (None, ("mask_row.token", "mask_row.sha256")),
    "taps": (None, ("taps",)),
    "basis": (None, ("basis",)),
}


@rule(
    "CTR060",
    title="the target is one that the package is attested for",
    fails="the package is NOT attested for this target",
    why="a target that nobody has measured with this drafter may draft as well, or not at all: no shape shows it",
    remedy=_ATTEST,
    needs=("binding", "target_record", "manifest"),
    after=("CTR062", "CTR063", "CTR064", "CTR065", "CTR067"),
)
def attested_by_name(pair: Pair) -> Iterator[Finding]:
    """The export that the manifest names is the one of the sidecar's record, or of an attestation's."""
    if "export" in set(differing_parts(pair, pair.target_record.value.target)):
        yield _not_attested(pair)


@rule(
    "CTR061",
    title="a target of an attested name is the attested one",
    fails="the target has an attested name and is NOT the attested target",
    why="a name is kept when a layer, a head or a config is built again: then it is another target",
    remedy=_ATTEST,
    needs=("binding", "target_record", "manifest"),
    after=("CTR060", "CTR020", "CTR022", "CTR023", "CTR025", "HEAD", "WGT016", "WGT018"),
)
def attested_by_content(pair: Pair) -> Iterator[Finding]:
    """Manifest, config, head, basis and files of a target of the recorded name are the recorded ones."""
    found = set(differing_parts(pair, pair.target_record.value.target))
    if found and "export" not in found:
        yield _not_attested(pair)


def _not_attested(pair: Pair) -> Finding:
    target_record = pair.target_record.value
    parts = list(differing_parts(pair, target_record.target))
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    manifest = pair.manifest.value
    export, digest = (lookup(target_record.target, path) for path in ("export", "manifest.content_sha256"))
    return Finding(
        subject="target",
        where=pair.place(manifest.path),
        expected=f"export {export}, manifest {digest}, as {target_record.place} states, or an attestation",
        found=f"export {manifest.export}, manifest {manifest.digest}",
        message=f"{NOT_ATTESTED}: another {', '.join(parts[:_SHOWN])}{more}",
    )


@rule(
    "CTR063",
    title="each given attestation is of this package",
    why="what another package showed with a target says nothing of this one",
    remedy="name the attestation of this package, or attest the pair with forgepack attest",
    needs=("attestations", "binding", "sidecar", "asset", "config"),
    after=("CTR062", "PKG012", "SRC017"),
)
def of_this_package(pair: Pair) -> Iterator[Finding]:
    """Profile, sidecar, program, metadata, config and codebooks of each attestation are this package's."""
    found = {"drafter": drafter_record(pair), "profile": {"name": pair.profile.name, "sha256": pair.profile.digest}}
    for attestation in pair.attestations.value:
        for part, value in found.items():
            for path, stated, here in differences(attestation.raw[part], value, part):
                where = f"{attestation.name}: {path}"
                yield differing("package of the attestation", where, expected=here, found=stated)


@rule(
    "CTR064",
    title="an attested target shares head, tokenizer, mask row, taps and basis with the package's own",
    why="the package has head and mask row built in, and token ids and features must mean the same",
    remedy="emit a package for that target: it can't be attested",
    needs=("attestations", "binding"),
    after=("CTR062", "CTR063"),
)
def shared(pair: Pair) -> Iterator[Finding]:
    """By content, not by file: other tables, parts or bytes of equal meaning are the same head and tokenizer."""
    own = pair.binding.value.get("target")
    for attestation in pair.attestations.value:
        for part, (file, paths) in _SHARED.items():
            if file is not None and lookup(own, file) == lookup(attestation.target, file):
                continue
            for path in paths:
                for inner, expected, found in differences(lookup(own, path), lookup(attestation.target, path), path):
                    where = f"{attestation.name}: target.{inner}"
                    yield differing(f"{part} of the attested target", where, expected=expected, found=found)


@rule(
    "CTR065",
    title="the evidence of an attestation is of its package and its target",
    why="acceptance that was measured with another drafter, head or embedding is not evidence of this pair",
    remedy="measure the pair with forgepack replay --target, and attest it with that report",
    needs=("attestations",),
    after=("CTR062",),
)
def evidence_of_pair(pair: Pair) -> Iterator[Finding]:
    """Drafter, target and profile that the evidence names are those of the attestation, and so are its traces'."""
    for attestation in pair.attestations.value:
        for part, expected in _of_pair(attestation).items():
            stated = lookup(attestation.evidence, part)
            for path, wanted, found in differences(expected, stated, part):
                where = f"{attestation.name}: evidence.{path}"
                yield differing("what the evidence is about", where, expected=wanted, found=found)
        recorded = attestation.evidence["traces"].get("export")
        if recorded not in (None, attestation.target["export"]):
            where = f"{attestation.name}: evidence.traces.export"
            message = "the traces hold another target's states: what a replay of them shows is not of this target"
            yield differing(
                "target of the evidence's traces",
                where,
                expected=attestation.target["export"],
                found=recorded,
                message=message,
            )
        elif attestation.evidence["traces"]["identity"] == "differs":
            where = f"{attestation.name}: evidence.traces.identity"
            yield differing("target of the evidence's traces", where, expected="the target's parts", found="others")


def _of_pair(attestation: Attestation) -> dict[str, Any]:
    return {
        "drafter.sha256": attestation.drafter["sha256"],
        "profile_sha256": attestation.raw["profile"]["sha256"],
        "target.export": attestation.target["export"],
        "target.sha256": replay_target_sha256(attestation.target),
    }


@rule(
    "CTR066",
    title="given evidence is a whole report, and shows what its attestation states",
    why="an attestation repeats what the evidence showed; only the evidence itself proves it",
    remedy="name the report that the attestation was made of; replay again where it is lost",
    needs=("evidence",),
    after=("CTR062",),
)
def evidence_itself(pair: Pair) -> Iterator[Finding]:
    """Each given report names its workload and fits itself; an attestation has its digest, and says what it says."""
    attestations = pair.attestations.value if pair.attestations.available else ()
    for evidence in pair.evidence.value:
        for where, expected, found in evidence.faults:
            yield differing("evidence", f"{evidence.name}: {where}", expected=expected, found=found)
        if evidence.faults or not attestations:
            continue
        of_it = [a for a in attestations if a.evidence["sha256"] == evidence.sha256]
        if not of_it:
            stated = ", ".join(str(a.evidence["sha256"]) for a in attestations)
            yield differing("digest of the evidence", evidence.name, expected=stated, found=evidence.sha256)
        for attestation in of_it:
            shown = evidence.shows.get(attestation.drafter["sha256"])
            stated_shown = {key: value for key, value in attestation.evidence.items() if key != "sha256"}
            for path, expected, found in differences(shown, stated_shown):
                where = f"{attestation.name}: evidence.{path}"
                yield differing("what the evidence showed", where, expected=expected, found=found)


@rule(
    "CTR067",
    title="one of the given attestations is of this target",
    why="an attestation of another target attests nothing here",
    remedy="name the attestation of this target, or none where the package was emitted for it",
    needs=("attestations", "binding", "manifest"),
    after=("CTR062", "CTR063"),
)
def of_this_target(pair: Pair) -> Iterator[Finding]:
    """Export, manifest and config of at least one attestation are the found target's."""
    missed: list[Finding] = []
    manifest = pair.manifest.value
    for attestation in pair.attestations.value:
        parts = [p for p in differing_parts(pair, attestation.target) if p in ("export", "manifest", "config")]
        if not parts:
            return
        where = f"{attestation.name}: target"
        found = f"export {lookup(attestation.target, 'export')}, another {', '.join(parts)}"
        missed.append(
            differing("target of the attestation", where, expected=f"export {manifest.export}", found=found)
        )
    yield from missed


@rule(
    "CTR068",
    title="the traces of an attestation's evidence say which target they were recorded with",
    why="traces without an identity may hold another target's states, and the replay can't detect it",
    remedy="record the traces with their identity, and attest again",
    severity="warning",
    needs=("attestations",),
)
def bound_traces(pair: Pair) -> Iterator[Finding]:
    """The evidence's traces carry an identity."""
    for attestation in pair.attestations.value:
        if attestation.evidence["traces"]["identity"] == "absent":
            where = f"{attestation.name}: evidence.traces.identity"
            yield differing("identity of the traces", where, expected="matches", found="absent")


@rule(
    "CTR069",
    title="sidecar and manifest of an attested pair name one export",
    why="the pair is bound by the attestation's digests, but older release checks pair by these names and refuse it",
    remedy="nothing, if no older check refuses the pair",
    severity="note",
    needs=("attestations", "binding", "target_record", "manifest"),
)
def attested_names(pair: Pair) -> Iterator[Finding]:
    """The export that the sidecar was written for is the attested target's name."""
    own, found = lookup(pair.binding.value, "target.export"), pair.manifest.value.export
    if pair.target_record.value.attestation is not None and own != found:
        where = pair.place(pair.layout.sidecar, "target_export")
        yield differing("target_export of the sidecar", where, expected=found, found=own)


ROWS = (
    reported_row(
        "CTR062",
        demand="The attestation is valid under its schema, and its own digest is that of its content.",
        title="each given attestation follows its schema and was not edited",
        fails="an attestation does NOT follow its schema, or was edited",
        why="an attestation is a statement about digests: a changed one states what nobody has measured",
        remedy=_AGAIN,
        each_of=("attestations",),
        codes=("attestation", "attestation-edited"),
    ),
)
