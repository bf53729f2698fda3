"""CTR: what of the documents no rule checks is named, and the record of the upstream says what release.json says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import METADATA_FILE
from forgepack.artifacts.release_record import UPSTREAM_FILE, UPSTREAM_SCHEMA, upstream_record
from forgepack.facts.fact import differences
from forgepack.profile import Upstream
from forgepack.verify.checks.leaves import unjudged
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


def _documents(pair: Pair) -> Iterator[tuple[str, Path, Any]]:
    """Yield (path in a release, file, value) of each JSON document that was read; a lock is refused key by key."""
    if pair.manifest.available:
        yield "coreai/manifest.json", pair.manifest.value.path, pair.manifest.value.raw
    if pair.target_config.available:
        yield "model/config.json", pair.target_config.value.path, pair.target_config.value.raw
    if pair.config.available:
        yield "drafter/config.json", pair.config.value.path, pair.config.value.raw
    if pair.sidecar.available:
        yield f"drafter/{pair.layout.sidecar.name}", pair.layout.sidecar, pair.sidecar.value
    if pair.asset.available:
        root = pair.asset.value.root
        yield f"drafter/{root.name}/{METADATA_FILE}", root / METADATA_FILE, pair.asset.value.metadata
    if pair.quant_report.available:
        yield "quant/report.json", pair.quant_report.value.path, pair.quant_report.value.raw
    if pair.release.available:
        yield "release.json", pair.release.value.path, pair.release.value.raw
    if pair.upstream_record.available and not _is_ours(pair.upstream_record.value):
        assert pair.sources.bundle is not None
        yield "", pair.sources.bundle / UPSTREAM_FILE, pair.upstream_record.value


@rule(
    "CTR090",
    title="every field of the pair's documents is checked",
    fails="some fields of the pair's documents are not checked",
    why="what no rule checks is bound by its file's digest at most: it may say anything",
    remedy="nothing, if the file is its source's own; compare the named fields with it where they matter",
    severity="note",
    since=2,
)
def all_judged(pair: Pair) -> Iterator[Finding]:
    """No document states a field that no rule checks and that may matter; one finding a document names them all."""
    for document, path, raw in _documents(pair):
        names = unjudged(document, raw)
        if names:
            yield Finding(
                subject=f"fields of {path.name}",
                expected="fields that a rule checks",
                found=f"not checked: {', '.join(names)}",
                where=pair.place(path),
            )


def _is_ours(raw: Mapping[str, Any]) -> bool:
    return raw.get("schema") == UPSTREAM_SCHEMA


@rule(
    "CTR092",
    title="QWEN_SOURCE.json states the upstream and the files that release.json lists",
    why="people read the one, tools the other: two upstreams of one release are one too many",
    remedy="write the bundle again with forgepack bundle",
    needs=("release", "upstream_record"),
    after=("CTR04",),
    since=2,
    closes="a release whose two records name different upstreams passed",
)
def upstream(pair: Pair) -> Iterator[Finding]:
    """Where it follows this tool's schema it is what bundling writes for release.json; another form is named."""
    raw, release = pair.upstream_record.value, pair.release.value
    if not _is_ours(raw):
        return
    stated = Upstream(id=release.upstream_id, revision=release.upstream_revision)
    for path, expected, found in differences(upstream_record(stated, release.files, pair.profile), raw):
        where = f"bundle/{UPSTREAM_FILE}: {path}"
        yield differing(f"{path} of {UPSTREAM_FILE}", where, expected=expected, found=found)
