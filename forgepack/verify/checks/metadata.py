"""What the asset's metadata says of the package, compared with the sidecar: a pair of statements that must agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.artifacts.aimodel import CUSTOM_KEY, METADATA_FILE
from forgepack.facts.fact import differences
from forgepack.json_values import lookup
from forgepack.verify.checks.binding import stated_at
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair

SIDECAR_DIGEST = "sidecar_sha256"
_FIELDS = ("author", "description", "license", CUSTOM_KEY)


def metadata_differences(pair: Pair) -> Iterator[Finding]:
    """Yield each leaf of metadata.json that is not what the emitter writes for this sidecar's binding."""
    asset = pair.asset.value
    expected = expected_metadata(pair)
    if expected is None:
        where = stated_at(pair, "target")
        yield differing("binding", where, expected="checkpoint, target and quantization", found="parts are missing")
        return
    found = {field: asset.metadata.get(field) for field in _FIELDS}
    for side in (expected, found):
        side[CUSTOM_KEY] = _without_digest(side[CUSTOM_KEY])
    for path, wanted, stated in differences(expected, found):
        where = pair.place(asset.root / METADATA_FILE, path)
        message = "the sidecar's binding demands it"
        yield differing(f"{path} of the asset", where, expected=wanted, found=stated, message=message)


def sidecar_digests(pair: Pair) -> tuple[str, Any]:
    """Return the digest of the sidecar's fields as they are, and the one that the asset's metadata states."""
    from forgepack.emit.sidecar_content import identity_digest

    stated = lookup(pair.asset.value.custom, f"forgepack.{SIDECAR_DIGEST}")
    return identity_digest(pair.written_sidecar.value), stated


def _without_digest(custom: Any) -> Any:
    """Return the creator's metadata without the digest of the sidecar, which has a rule of its own."""
    bound = lookup(custom, "forgepack")
    if not isinstance(bound, dict):
        return custom
    return {**custom, "forgepack": {key: value for key, value in bound.items() if key != SIDECAR_DIGEST}}


def expected_metadata(pair: Pair) -> dict[str, Any] | None:
    """Return what metadata.json must hold by the sidecar's binding; None when the binding lacks a part of it."""
    from forgepack.emit.inputs import Identity
    from forgepack.emit.sidecar_content import asset_metadata

    _ = pair.binding.value  # raises where there is none; the asset repeats the fields that were written, not today's
    bound = pair.written_sidecar.value["forgepack"]
    try:
        identity = Identity(
            checkpoint=bound["checkpoint"], target=bound["target"], quantization=bound["quantization"]
        )
        metadata = asset_metadata(pair.profile, identity)
    except (KeyError, TypeError):
        return None
    return {
        "author": metadata.author,
        "description": metadata.description,
        "license": metadata.licence,
        CUSTOM_KEY: dict(metadata.custom),
    }
