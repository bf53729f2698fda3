"""HEAD: the drafter scores its drafts with the target's own output head, and with no other.

A stale or edited head keeps its name and shape and agrees with a reference that was built from it, so the head is
compared by content, three ways: the package's constants, the export's lm_head, the target's own head package.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.facts.target import head_content_facts, head_file_facts, head_header_facts, head_tensor_facts
from forgepack.verify.checks.binding import compared
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.heads import export_source, head_differences, package_source, target_source, witnesses
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_TENSORS = ("lm_head.lut", "lm_head.idx", "lm_head.scale")


@rule(
    "HEAD001",
    title="the export's head is LUT4: a table of 16, one index a weight, one scale a row",
    why="a head of another precision scores drafts otherwise than the one that the drafter was tuned with",
    remedy="restore lm_head.safetensors from the target's export",
    needs=("head",),
)
def export_head(pair: Pair) -> Iterator[Finding]:
    """lm_head.safetensors holds lut F16 [16,1], idx U8 [vocab,hidden] and scale F16 [vocab], and nothing else."""
    head, geometry = pair.head.value, pair.profile.geometry
    shapes = ((16, 1), (geometry.vocab, geometry.hidden), (geometry.vocab,))
    expected = {
        name: f"{dtype}{list(shape)}"
        for name, dtype, shape in zip(_TENSORS, ("F16", "U8", "F16"), shapes, strict=True)
    }
    found = {name: f"{info.dtype}{list(info.shape)}" for name, info in head.tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            where = pair.place(head.path, name)
            yield differing(
                "tensor of the export's head",
                where,
                expected=expected.get(name, "absent"),
                found=found.get(name, "absent"),
            )


@rule(
    "HEAD006",
    title="the head is identified at least twice",
    why="one comparison can agree by the fault that it should find, as a stale head did with its own reference",
    remedy="name the part that was not seen: --target-export, or the build with its head package",
    depth="lineage",
    needs=("package_head", "manifest"),
)
def identified_twice(pair: Pair) -> Iterator[Finding]:
    """At least two comparisons are of the package's head with the target or the binding."""
    seen = witnesses(pair)
    if len(seen) < 2:
        where = pair.place(pair.layout.asset)
        yield differing("head of the package", where, expected="two comparisons", found="; ".join(seen) or "none")


@rule(
    "HEAD008",
    title="the export's head file is the one that the pair was bound to",
    fails="the export's head file is NOT the one that the pair was bound to",
    why="a rebuilt or edited head keeps the export's name",
    remedy="use the export that the package was emitted for, or emit it for this one",
    depth="hash",
    needs=("binding", "head", "digests"),
    after=(
        "CTR060",
        "PKG015",
        "NUM00",
        "HEAD003",
        "HEAD005",
        "HEAD009",
        "HEAD007",
    ),
)
def bound_file(pair: Pair) -> Iterator[Finding]:
    """The SHA-256 of lm_head.safetensors is the one that the sidecar states."""
    digest = pair.digests.value.get(pair.head.value.path)
    return compared(pair, "target", head_file_facts(pair.head.value, None if digest is None else digest.sha256))


ROWS = (
    reported_row(
        "HEAD002",
        demand="A LUT4 head can be read from the drafter package, the target's head package and the export.",
        title="package and target have a LUT4 head behind the output logits",
        why="without logits nothing is drafted; a head of another form can't be the target's",
        remedy="emit the package again; build the target's head package from its export",
        depth="lineage",
        codes=("head-missing", "head-form", "lut-index"),
    ),
    row(
        "HEAD003",
        lambda pair: head_differences(pair, package_source(pair), export_source(pair)),
        demand=(
            "Indices and products of table and scale are those of lm_head.safetensors, whatever parts and folds."
        ),
        title="the package's head is the target export's, by content",
        fails="the drafter's output head is NOT the target's",
        why="drafts are scored with a head that the target does not use: nothing fails, fewer drafts are accepted",
        remedy="emit the package again for this target",
        depth="lineage",
        needs=("package_head", "export_digest"),
    ),
    row(
        "HEAD004",
        lambda pair: head_differences(pair, package_source(pair), target_source(pair)),
        demand=(
            "Indices and products of table and scale are those of the target's head package, which computes "
            "with them."
        ),
        title="the package's head is that of the target's own head package, by content",
        fails="the drafter's output head is NOT that of the target's head package",
        why="the target verifies with its head package: this is the head that decides what is accepted",
        remedy="emit the package again for this target",
        depth="lineage",
        needs=("package_head", "wired_head"),
        after=("HEAD003",),
    ),
    row(
        "HEAD005",
        lambda pair: head_differences(pair, target_source(pair), export_source(pair)),
        demand="Indices and products of the target's head package are those of lm_head.safetensors.",
        title="the target's head package was built from its export, by content",
        fails="the target's head package was NOT built from its export",
        why="a target whose parts disagree has no one head to pair with",
        remedy="build the target's head package from its export again, or restore both from one release",
        depth="lineage",
        needs=("target_head", "export_digest"),
        after=(
            "HEAD003",
            "HEAD004",
        ),
    ),
    row(
        "HEAD007",
        lambda pair: compared(pair, "target", head_header_facts(pair.head.value)),
        demand="The SHA-256 of lm_head.safetensors' header is the one that the sidecar states.",
        title="the export's head has the header that the pair was bound to",
        fails="the header of the export's head is NOT the one that the pair was bound to",
        why="another header is a head of another file, shape or writer",
        remedy="use the export that the package was emitted for, or emit it for this one",
        needs=("binding", "head"),
        after=(
            "CTR060",
            "PKG015",
            "HEAD003",
            "HEAD005",
            "HEAD001",
        ),
    ),
    row(
        "HEAD009",
        lambda pair: compared(pair, "target", head_content_facts(pair.package_head.value.digest, pair.layout.asset)),
        demand=("Rows, columns, ranks and products of the package's head have the digests that the sidecar states."),
        title="the package's head is the one that the sidecar states, by content",
        fails="the package's head is NOT the one that its sidecar states",
        why="a stale head agrees with whatever was built from it; the binding was taken from the export",
        remedy="emit the package again for this target",
        depth="lineage",
        needs=("binding", "package_head"),
        after=(
            "PKG015",
            "HEAD003",
            "HEAD004",
        ),
    ),
    row(
        "HEAD010",
        lambda pair: compared(pair, "target", head_tensor_facts(pair.head.value)),
        demand=("Type, shape and SHA-256 of each tensor of lm_head.safetensors are those that the sidecar states."),
        title="the export's head tensors are those that the sidecar states",
        fails="the export's head tensors are NOT those that the sidecar states",
        why="each tensor of the head has a record of its own, so that a change is named, not only noticed",
        remedy="use the export that the package was emitted for, or emit it for this one",
        depth="lineage",
        needs=("binding", "head"),
        after=(
            "CTR060",
            "PKG015",
            "NUM00",
            "HEAD003",
            "HEAD005",
        ),
    ),
)
