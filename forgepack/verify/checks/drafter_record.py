"""A package by the digests that its headers and its sidecar hold: what an attestation says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forgepack.artifacts.aimodel import PROGRAM_FILE
from forgepack.canonical import digest_json
from forgepack.json_values import lookup
from forgepack.verify.inputs.layout import SELECTOR_FILE
from forgepack.verify.inputs.pair import Pair


def drafter_record(pair: Pair) -> dict[str, Any]:
    """Return what an attestation says of a package: digests that its headers and its sidecar hold.

    ``sha256`` is the digest under which a replay knows the drafter. Codebooks and program are those of the sidecar's
    record, which depth hash proves by the bytes.
    """
    files = lookup(pair.binding.value, "package.files")
    names = (f"{pair.layout.asset.name}/{PROGRAM_FILE}", SELECTOR_FILE)
    replayed = {name: _recorded(files, name) for name in names}
    return {
        "package": pair.profile.package,
        "sha256": digest_json(replayed),
        "sidecar_sha256": digest_json(pair.written_sidecar.value),
        "program_sha256": pair.asset.value.stated_sha256,
        "metadata_sha256": pair.asset.value.content_sha256,
        "config_sha256": pair.config.value.sha256,
        "selector_sha256": replayed[SELECTOR_FILE],
    }


def _recorded(files: Any, name: str) -> str:
    record = files.get(name) if isinstance(files, Mapping) else None
    return str(lookup(record, "sha256"))
