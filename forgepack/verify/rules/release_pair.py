"""CTR, the release's pair: what release.json says of runtime and drafter is what their own files say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.release_json import RELEASE_FILE, Release
from forgepack.artifacts.release_record import KIND, RECORD_FILE, SUMS_FILE, release_record
from forgepack.artifacts.tree import unsafe_reason
from forgepack.facts.fact import differences
from forgepack.json_values import equal_json, lookup
from forgepack.verify.checks.faults import reported
from forgepack.verify.checks.release_files import present_files
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.layout import CONFIG_FILE, SELECTOR_FILE
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_BUNDLE = "write the bundle again with forgepack bundle"


def _stated(part: str) -> str:
    return f"bundle/{RELEASE_FILE}: {part}"


@rule(
    "CTR048",
    title="release.json names the drafter's files, exports and taps as they are",
    why="these names are all that an older release check pairs by",
    remedy=_BUNDLE,
    needs=("release", "sidecar", "config"),
    after=("CTR040", "CTR051", "CTR004", "TAP"),
)
def drafter_entry(pair: Pair) -> Iterator[Finding]:
    """Model, sidecar, config, codebooks, export names and taps of the entry are those of package and config."""
    drafter = pair.release.value.drafter
    if drafter is None:
        return
    sidecar, layout = pair.sidecar.value, pair.layout
    stated = {key: getattr(drafter, key) for key in ("model", "metadata", "config", "codebooks")}
    stated |= {"target_export": drafter.target_export, "head_export": drafter.head_export, "taps": list(drafter.taps)}
    expected = {
        "model": f"{layout.expected}.aimodel",
        "metadata": f"{layout.expected}.json",
        "config": CONFIG_FILE,
        "codebooks": SELECTOR_FILE,
        "target_export": _name(sidecar.get("target_export"), part=-1),
        "head_export": _name(sidecar.get("head_export"), part=-2),
        "taps": pair.config.value.taps,
    }
    for key, value in expected.items():
        if not equal_json(stated[key], value):
            yield differing(f"drafter's {key}", _stated(f"drafter.{key}"), expected=value, found=stated[key])


def _name(value: Any, *, part: int) -> Any:
    """Return one part of a POSIX path, counted from its end; what is not a path as it is."""
    parts = PurePosixPath(value).parts if isinstance(value, str) else ()
    return parts[part] if len(parts) >= -part else value


@rule(
    "CTR049",
    title="release.json lists the contexts that the target's build has",
    why="a context that is listed and not built fails when a user asks for it",
    remedy=_BUNDLE,
    needs=("release", "manifest"),
    after=("CTR040",),
)
def contexts(pair: Pair) -> Iterator[Finding]:
    """runtimes.coreai.contexts are ctxs of the manifest, in any order."""
    runtime, built = pair.release.value.runtimes.get("coreai"), list(pair.manifest.value.contexts)
    if runtime is not None and sorted(runtime.contexts) != sorted(built):
        where = _stated("runtimes.coreai.contexts")
        yield differing("contexts", where, expected=built, found=list(runtime.contexts))


@rule(
    "CTR050",
    title="every package that the manifest names is in the release",
    why="a chunk or head that is not listed is not downloaded, and what is in its place is not checked",
    remedy=_BUNDLE,
    needs=("release", "manifest", "bundle_tree"),
    after=("CTR040", "CTR045"),
)
def packages(pair: Pair) -> Iterator[Finding]:
    """Each chunk, the head, and each compiled package that stands beside them is listed and there."""
    release, manifest = pair.release.value, pair.manifest.value
    runtime = release.runtimes.get("coreai")
    if runtime is None:
        return
    listed, present = {file.path for file in release.of("coreai")}, present_files(pair)
    for name in _named_packages(pair, runtime.path):
        prefix = f"{runtime.path}/{name}"
        for paths, found in ((listed, "not listed"), (present, "not there")):
            if not any(path == prefix or path.startswith(f"{prefix}/") for path in paths):
                yield differing(name, pair.place(manifest.path, name), expected=f"a package {prefix}", found=found)


def _named_packages(pair: Pair, root: str) -> Iterator[str]:
    """Yield the packages of chunks and head; of compiled ones those that are named or stand beside their source."""
    raw = pair.manifest.value.raw
    present = present_files(pair)
    for entry in [*raw["chunks"], raw["head"]]:
        yield entry["file"]
        compiled = entry.get("compiled")
        if isinstance(compiled, str) and unsafe_reason(compiled) is None:
            yield compiled
        elif compiled is None:
            sibling = PurePosixPath(entry["file"]).with_suffix(".aimodelc").as_posix()
            if any(path.startswith(f"{root}/{sibling}/") for path in present):
                yield sibling


@rule(
    "CTR051",
    title="the release pairs a Core AI target with a drafter",
    why="the target alone is a diagnostic: nothing of the release's speed or acceptance can come from it",
    remedy="bundle the target with its drafter, or verify with --plain",
    needs=("release",),
    after=("CTR040",),
)
def paired(pair: Pair) -> Iterator[Finding]:
    """release.json has a coreai runtime and, unless the drafter is left out on purpose, a drafter."""
    release = pair.release.value
    if "coreai" not in release.runtimes:
        yield differing("runtime coreai", _stated("runtimes"), expected="coreai", found=sorted(release.runtimes))
    if not release.has_drafter and not pair.sources.plain:
        yield differing("drafter", _stated("drafter"), expected="a drafter", found="nothing")


@rule(
    "CTR052",
    title="forgepack.json binds this release.json and this package",
    fails="forgepack.json does NOT bind this release.json and this package",
    why="release.json can be written again over changed files; the record then no longer fits",
    remedy=_BUNDLE,
    needs=("release", "record", "sidecar"),
    after=("CTR040", "CTR001"),
)
def bound_record(pair: Pair) -> Iterator[Finding]:
    """forgepack.json follows its schema and is what this tool writes for this release and this sidecar."""
    record, release = pair.record.value, pair.release.value
    for fault in KIND.faults(record):
        yield differing(fault.path, f"bundle/{RECORD_FILE}: {fault.path}", expected=fault.expected, found=fault.found)
    for path, expected, found in differences(_expected_record(pair, release), record):
        if not path.startswith(("tool", "about")):
            yield differing(path, f"bundle/{RECORD_FILE}: {path}", expected=expected, found=found)


def _expected_record(pair: Pair, release: Release) -> dict[str, Any]:
    binding = pair.binding.value if pair.binding.available else {}
    size = release.path.stat().st_size
    return release_record(release, size, binding, profile=pair.profile)


@rule(
    "CTR053",
    title="SHA256SUMS states the digests that release.json lists",
    why="sha256sum must check the same bytes",
    remedy=_BUNDLE,
    needs=("release",),
    each_of=("sums",),
    codes=("sums",),
    after=("CTR040",),
)
def sums(pair: Pair) -> Iterator[Finding]:
    """SHA256SUMS lists every file of the inventory, release.json and forgepack.json, each with its digest."""
    yield from reported(pair, "CTR053")
    if not pair.sums.available:
        return
    stated, release = dict(pair.sums.value), pair.release.value
    expected = {file.path: file.sha256 for file in release.files} | {RELEASE_FILE: release.sha256}
    if pair.record.available:
        expected[RECORD_FILE] = _digest_of(pair, RECORD_FILE)
    else:
        stated.pop(RECORD_FILE, None)
    for path in sorted({*expected, *stated}):
        if stated.get(path) != expected.get(path):
            where = f"bundle/{SUMS_FILE}: {path}"
            yield differing(path, where, expected=expected.get(path), found=stated.get(path))


def _digest_of(pair: Pair, name: str) -> str:
    assert pair.sources.bundle is not None
    return hash_file(pair.sources.bundle / name)[1]


@rule(
    "CTR056",
    title="the target's manifest names no folder of the machine that built it",
    fails="the target's manifest names a folder of the machine that built it",
    why="an absolute path reveals who built the release, and is of no use elsewhere",
    remedy="write the export's name alone into manifest.json before the pair is emitted",
    severity="warning",
    needs=("release", "manifest"),
)
def no_private_path(pair: Pair) -> Iterator[Finding]:
    """``export`` of the manifest is a name or a relative path."""
    manifest = pair.manifest.value
    stated = lookup(manifest.raw, "export")
    if isinstance(stated, str) and (stated.startswith(("/", "~")) or "\\" in stated or stated[1:2] == ":"):
        where = pair.place(manifest.path, "export")
        yield differing("export", where, expected=manifest.export, found="an absolute path")
