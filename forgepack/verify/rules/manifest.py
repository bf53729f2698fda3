"""CTR and TAP, the manifest's part: each of its fields has its form, and none contradicts another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forgepack.artifacts.manifest_fields import KNOWN_VERSION, differences, form_faults, prefill_gaps
from forgepack.json_values import equal_json
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_REMEDY = "restore manifest.json from the target's release, or build the target again"
_TAP = re.compile(r"tap\d+")


@rule(
    "CTR086",
    title="every known field of the target's manifest has its form",
    why="a count that is not a number, or a table of another form, fails in the runtime or is read as something else",
    remedy=_REMEDY,
    needs=("manifest",),
    since=2,
    closes="a manifest with pend -1, kv_len 5 or pctxs of texts passed",
)
def forms(pair: Pair) -> Iterator[Finding]:
    """Version, rows, contexts, lengths and form of the cache, tables by chip: each is what the schema says."""
    manifest = pair.manifest.value
    for path, expected, found in form_faults(manifest.raw):
        yield differing(f"{path} of the manifest", pair.place(manifest.path, path), expected=expected, found=found)


@rule(
    "CTR087",
    title="no field of the target's manifest contradicts another",
    fails="fields of the target's manifest contradict each other",
    why="the runtime takes rows from one field, entry points from another and the cache's length from a third",
    remedy=_REMEDY,
    needs=("manifest",),
    after=("CTR014", "CTR015", "CTR086"),
    since=2,
    closes="a manifest whose TP is not the rows of its prefill entries passed",
)
def consistent(pair: Pair) -> Iterator[Finding]:
    """Pending rows are T; entries have the rows and contexts stated, lengths fit their contexts, packages differ."""
    manifest = pair.manifest.value
    for path, expected, found in differences(manifest.raw):
        yield differing(f"{path} of the manifest", pair.place(manifest.path, path), expected=expected, found=found)


@rule(
    "CTR088",
    title="the release's build is not one that a runtime derived for one machine",
    fails="the release's build was derived by a runtime for one machine",
    why="a derived build serves one chip and names a folder of the machine that made it",
    remedy="bundle the target that the build was derived from",
    needs=("release", "manifest"),
    since=2,
    closes="a locally derived build could be published as a release",
)
def not_derived(pair: Pair) -> Iterator[Finding]:
    """The manifest of a release states no ``derived``; a target by itself may."""
    manifest = pair.manifest.value
    if manifest.raw.get("derived") is not None:
        where = pair.place(manifest.path, "derived")
        yield differing("build of the release", where, expected="a build for every chip", found="a derived build")


@rule(
    "CTR089",
    title="the target prefills in the rows that the drafter takes, at every prefill context",
    why="a context without its prefill entry is filled another way, or not at all",
    remedy="build the target again, or remove the context from the manifest",
    severity="warning",
    needs=("manifest",),
    after=("CTR086", "CTR087"),
    since=2,
)
def prefill(pair: Pair) -> Iterator[Finding]:
    """TP is the profile's prefill rows, and each chunk has the entry p<TP>_<k>k of every prefill context."""
    manifest, rows = pair.manifest.value, pair.profile.geometry.prefill_rows
    stated = manifest.raw.get("TP")
    if stated is not None and not equal_json(stated, rows):
        yield differing("rows of a prefill", pair.place(manifest.path, "TP"), expected=rows, found=stated)
    for path, expected, found in prefill_gaps(manifest.raw):
        yield differing("prefill entries of a chunk", pair.place(manifest.path, path), expected=expected, found=found)


@rule(
    "CTR091",
    title="the target's manifest is of the version that this tool was written against",
    why="fields of another version may mean something else; which versions there are is not known",
    remedy="nothing, if the target is meant: each field that a rule knows is checked all the same",
    severity="note",
    needs=("manifest",),
    after=("CTR086",),
    since=2,
)
def known_version(pair: Pair) -> Iterator[Finding]:
    """``version`` of the manifest, where it is stated, is 1."""
    manifest = pair.manifest.value
    stated = manifest.raw.get("version")
    if stated is not None and not equal_json(stated, KNOWN_VERSION):
        where = pair.place(manifest.path, "version")
        yield differing("version of the manifest", where, expected=KNOWN_VERSION, found=stated)


@rule(
    "TAP023",
    title="outputs that the manifest states of a chunk hold its taps in ascending order",
    why="sorted as text tap10 stands before tap8: a runtime that takes taps by position exchanges their features",
    remedy="restore manifest.json from the target's release",
    needs=("manifest",),
    after=("CTR015",),
    since=2,
    closes="taps of a chunk in the order of their texts passed",
)
def stated_outputs(pair: Pair) -> Iterator[Finding]:
    """Where a chunk states ``outputs``, tap<i> among them are the taps inside it, ascending; y is its last layer."""
    manifest = pair.manifest.value
    for number, chunk in enumerate(manifest.chunks):
        stated = manifest.raw["chunks"][number].get("outputs")
        if not isinstance(stated, list) or not all(isinstance(name, str) for name in stated):
            continue
        first, last = chunk.layers
        inside = sorted(tap for tap in pair.profile.geometry.taps if first <= tap <= last)
        expected = [f"tap{tap}" for tap in inside if tap != last]
        found = [name for name in stated if _TAP.fullmatch(name)]
        where = pair.place(manifest.path, f"chunks[{number}].outputs")
        if found != expected:
            yield differing(f"taps among the outputs of chunk {number}", where, expected=expected, found=found)
        if last in inside and "y" not in stated:
            yield differing(f"outputs of chunk {number}", where, expected=f"y, for tap {last}", found=stated)
