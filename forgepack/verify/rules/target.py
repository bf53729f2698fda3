"""CTR, the target's part: build, export and config are those that the sidecar binds the package to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from forgepack.artifacts.tree import JUNK, content
from forgepack.facts.target import basis_facts, config_facts, export_facts, manifest_bytes_facts, manifest_facts
from forgepack.verify.checks.binding import bound, compared, stated_at
from forgepack.verify.checks.files import file_differences, target_file
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_MANIFEST = "coreai/manifest.json"
_MARKS = re.compile(rf"{JUNK.pattern}|(^|/)\.git(keep|attributes)$")  # what tools leave, and PATH006 reports


@rule(
    "CTR020",
    title="the target's manifest is the one that the pair was bound to",
    fails="the target's manifest is NOT the one that the pair was bound to",
    why="another manifest is another build: other chunks, contexts, taps or head",
    remedy="use the target that the package was emitted for, or emit it for this one",
    needs=("binding", "manifest"),
    after=(
        "CTR060",
        "CTR067",
        "PATH001",
        "TAP",
        "CTR014",
        "CTR015",
        "CTR086",
        "CTR087",
        "CTR004",
        "CTR025",
    ),
)
def bound_manifest(pair: Pair) -> Iterator[Finding]:
    """Content, export and head package of manifest.json are those that the sidecar states."""
    manifest = pair.manifest.value
    return compared(pair, "target", [*manifest_facts(manifest), *export_facts(manifest)])


@rule(
    "CTR023",
    title="every file of the target's build and export is the one that the pair was bound to",
    fails="files of the target's build or export are NOT those that the pair was bound to",
    why="one rebuilt layer or package changes what the target accepts, under the same names",
    remedy="use the target that the package was emitted for, or emit it for this one",
    depth="hash",
    needs=("binding", "digests", "build_tree"),
    after=(
        "CTR060",
        "CTR067",
        "HEAD",
        "PKG013",
        "CTR020",
        "PKG038",
        "PKG039",
        "PKG040",
        "PKG041",
        "PKG043",
        "PKG060",
        "FMT01",
    ),
)
def bound_files(pair: Pair) -> Iterator[Finding]:
    """Each file that the sidecar lists of the target's parts that are there exists with its digest."""
    stated = bound(pair, "target.files")
    if not isinstance(stated, Mapping):
        yield differing("files of the target", stated_at(pair, "target.files"), expected="an object", found=stated)
        return
    for path, record in sorted(stated.items()):
        file = target_file(pair, path)
        if file is not None:
            yield from file_differences(pair, file, f"target.files.{path}", record)


@rule(
    "CTR024",
    title="build and export of the target hold no file that the pair was not bound to",
    fails="the target's build or export holds files that the pair was not bound to",
    why="a file that no digest covers may be loaded in place of one that is covered",
    remedy="remove the file, or emit the package for this target",
    needs=("binding", "build_tree"),
    after=("CTR060", "CTR067", "CTR025", "PATH004", "PKG00", "PKG038", "PKG039", "PKG043", "FMT", "CTR040", "CTR045"),
)
def unbound_files(pair: Pair) -> Iterator[Finding]:
    """Every file of build and export is listed by the sidecar; junk, marks of git and manifest.json aside."""
    stated = bound(pair, "target.files")
    listed = set(stated) if isinstance(stated, Mapping) else set()
    for role, tree in (("coreai", pair.build_tree), ("export", pair.export_tree)):
        for entry in content(tree.value) if tree.available else ():
            path = f"{role}/{entry.path}"
            if path in listed or path == _MANIFEST or _MARKS.search(entry.path):
                continue
            yield differing("file of the target", path, expected="a file that the sidecar lists", found=path)


@rule(
    "CTR026",
    title="the target declares no rotated basis",
    fails="the target declares a rotated basis",
    why="a pair may legally keep an unrotated head under a rotated target, bound by digest instead of names",
    remedy="nothing, if the basis is meant; older release checks compare names and refuse such a pair",
    severity="note",
    needs=("manifest",),
)
def no_basis(pair: Pair) -> Iterator[Finding]:
    """The manifest has no rot1_basis."""
    manifest = pair.manifest.value
    if manifest.basis is not None:
        where = pair.place(manifest.path, "rot1_basis")
        yield differing("basis of the target", where, expected="none", found=manifest.basis)


ROWS = (
    row(
        "CTR021",
        lambda pair: compared(pair, "target", manifest_bytes_facts(pair.manifest.value)),
        demand="manifest.json has the SHA-256 that the sidecar states.",
        title="manifest.json was not written again",
        fails="manifest.json was written again",
        why="equal content in other bytes is legal, but the file is no longer the released one",
        remedy="restore manifest.json from the target's release",
        severity="warning",
        needs=("binding", "manifest"),
        after=("CTR020",),
    ),
    row(
        "CTR022",
        lambda pair: compared(pair, "target", config_facts(pair.target_config.value)),
        demand="The target's config.json has the SHA-256 that the sidecar states.",
        title="the target's config is the one that the pair was bound to",
        fails="the target's config is NOT the one that the pair was bound to",
        why="a target that differs in anything its config states is another target",
        remedy="use the target that the package was emitted for, or emit it for this one",
        needs=("binding", "target_config"),
        after=(
            "CTR060",
            "CTR067",
            "VOC",
            "CTR01",
            "TAP007",
        ),
    ),
    row(
        "CTR025",
        lambda pair: compared(pair, "target", basis_facts(pair.manifest.value, pair.sources.target)),
        demand=("rot1_basis of the manifest and basis files of build and export are those that the sidecar states."),
        title="the target's basis is the one that the pair was bound to",
        why="a rotated residual has the same shapes and nearly the same logits, but the taps speak another language",
        remedy="use the target of the package's own basis",
        needs=("binding", "manifest"),
        after=("TAP",),
    ),
)
