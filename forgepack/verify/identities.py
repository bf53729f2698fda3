"""Which inputs a report speaks of: each as it was named, and the digests that say which one it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forgepack.verify.findings.report import Identity
from forgepack.verify.inputs.pair import Pair


def identities(pair: Pair) -> tuple[Identity, ...]:
    """Return one identity for each part that was named, with the digests known without further reading."""
    digests: dict[str, Mapping[str, str]] = {
        "drafter": dict(_package(pair)),
        "target": dict(_target(pair)),
        "checkpoint": dict(_checkpoint(pair)),
        "quant": dict(_quant(pair)),
        "bundle": dict(_release(pair)),
        "hub": dict(_release(pair)),
        **dict(_accepting(pair)),
    }
    named = pair.sources.named
    return tuple(Identity(role=role, path=named[role], digests=digests.get(role, {})) for role in sorted(named))


def _accepting(pair: Pair) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the digests of the files that say what is accepted."""
    for attestation in pair.attestations.value if pair.attestations.available else ():
        yield attestation.name, {"sha256": attestation.sha256, "evidence_sha256": attestation.evidence["sha256"]}
    for evidence in pair.sources.extra_files.evidence:
        yield evidence.name, {"sha256": evidence.sha256} if evidence.sha256 else {}
    policy = pair.acceptance.policy
    if policy.waivers is not None:
        yield "waivers", {"sha256": policy.waivers.sha256}
    if policy.baseline is not None:
        yield "baseline", {"sha256": policy.baseline.sha256}


def _package(pair: Pair) -> Iterator[tuple[str, str]]:
    if pair.asset.available:
        yield "program_sha256", pair.asset.value.stated_sha256
        yield "metadata_sha256", pair.asset.value.content_sha256
    if pair.config.available:
        yield "config_sha256", pair.config.value.sha256


def _target(pair: Pair) -> Iterator[tuple[str, str]]:
    if pair.manifest.available:
        yield "manifest_sha256", pair.manifest.value.sha256
    if pair.target_config.available:
        yield "config_sha256", pair.target_config.value.sha256
    if pair.head.available:
        yield "lm_head_header_sha256", pair.head.value.header_sha256


def _checkpoint(pair: Pair) -> Iterator[tuple[str, str]]:
    if pair.checkpoint.available:
        yield "header_sha256", pair.checkpoint.value.header_sha256


def _quant(pair: Pair) -> Iterator[tuple[str, str]]:
    if pair.quant.available:
        yield "header_sha256", pair.quant.value.header_sha256


def _release(pair: Pair) -> Iterator[tuple[str, str]]:
    if pair.release.available:
        yield "release_sha256", pair.release.value.sha256
