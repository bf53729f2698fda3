"""forgepack.json and SHA256SUMS: what this tool adds beside a release.json of Forge's.

These digests are in files of their own: release.json's schema is Forge's to extend, and a later reader of it may
refuse a key that it does not know. Neither file is in the inventory, whose documentation is a closed list; a
download by Forge's own helper leaves both out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forgepack import __version__
from forgepack.artifacts.release_json import RELEASE_FILE, Release, ReleaseFile
from forgepack.canonical import digest_json
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError
from forgepack.limits import SUMS_BYTES
from forgepack.profile import Profile, Upstream

RECORD_FILE = "forgepack.json"
SUMS_FILE = "SHA256SUMS"
UPSTREAM_FILE = "QWEN_SOURCE.json"
UPSTREAM_SCHEMA = "forgepack.qwen_source/1"
KIND = DocumentKind(
    name="forgepack.release",
    title="record of a release",
    remake="bundle the release again",
    code="release-record",
    form="release_record",
)
MAX_SUMS = SUMS_BYTES
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_ABOUT = f"Written by forgepack after its own schema, {KIND.form}.schema.json; {RELEASE_FILE} is Forge's."
_BOUND = {
    "checkpoint": ("repo", "commit", "lock_sha256", "model_sha256", "config_sha256"),
    "quantization": ("variant", "method", "drafter_quant_sha256", "report_sha256"),
}


def release_record(
    release: Release, size: int, binding: Mapping[str, Any], *, profile: Profile, version: str = __version__
) -> dict[str, Any]:
    """Return forgepack.json for a release of ``size`` bytes and the binding of its package's sidecar."""
    target = _object(binding, "target")
    head, manifest, tokenizer = (_object(target, key) for key in ("head", "manifest", "tokenizer"))
    sidecar = _sidecar(release)
    return {
        "schema": KIND.schema,
        "about": _ABOUT,
        "tool": {"name": "forgepack", "version": version},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "release": {"bytes": size, "sha256": release.sha256},
        "components": {name: component_digest(release.of(name)) for name in _components(release)},
        "sidecar": None if sidecar is None else {"path": sidecar.path, "sha256": sidecar.sha256},
        **{name: {key: _object(binding, name).get(key) for key in keys} for name, keys in _BOUND.items()},
        "target": {
            "export": target.get("export"),
            "upstream": {"id": release.upstream_id, "revision": release.upstream_revision},
            "manifest_sha256": manifest.get("sha256"),
            "head_sha256": head.get("sha256"),
            "head_content_sha256": head.get("content_sha256"),
            "embedding_sha256": _object(target, "embedding").get("sha256"),
            "tokenizer_sha256": tokenizer.get("sha256"),
        },
    }


def _components(release: Release) -> list[str]:
    return sorted({file.component for file in release.files})


def component_digest(files: Iterable[ReleaseFile]) -> dict[str, Any]:
    """Return number and bytes of a component's files and one digest of their paths, sizes and digests."""
    listed = sorted(files, key=lambda file: file.path)
    digest = digest_json([[file.path, file.bytes, file.sha256] for file in listed])
    return {"files": len(listed), "bytes": sum(file.bytes for file in listed), "sha256": digest}


def _sidecar(release: Release) -> ReleaseFile | None:
    drafter = release.drafter
    path = None if drafter is None else f"{drafter.path}/{drafter.metadata}"
    return next((file for file in release.files if file.path == path), None)


def _object(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def upstream_record(upstream: Upstream, files: Sequence[ReleaseFile], profile: Profile) -> dict[str, Any]:
    """Return QWEN_SOURCE.json: where the target comes from, in a schema of this tool's own that says so."""
    return {
        "schema": UPSTREAM_SCHEMA,
        "about": (
            "Written by forgepack after its own schema, qwen_source.schema.json; "
            "not the format of any other tool's QWEN_SOURCE.json."
        ),
        "upstream": {"id": upstream.id, "revision": upstream.revision, "licence": profile.target.licence},
        "pinned": {"tokenizer_sha256": profile.target.tokenizer_sha256},
        "files": {f.path: {"bytes": f.bytes, "sha256": f.sha256} for f in files if f.component == "model"},
    }


def render_sums(digests: Mapping[str, str]) -> bytes:
    """Return the lines that ``sha256sum --check`` reads, sorted by path."""
    return "".join(f"{digests[path]}  {path}\n" for path in sorted(digests)).encode("utf-8")


def parse_sums(data: bytes, *, where: str) -> dict[str, str]:
    """Return path -> SHA-256; CorruptError (``sums``) names the first line of another form."""
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or found.setdefault(match[2], match[1]) != match[1]:
            raise CorruptError(
                f"{SUMS_FILE} holds a line of another form",
                where=f"{where}: line {number}",
                expected="64 hex digits, two spaces, a path; each path once",
                found=ascii(line[:80]),
                code="sums",
            )
    return found
