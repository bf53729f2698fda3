"""HEAD: the drafter scores its drafts with the target's own output head, and with no other.

A stale or edited head keeps its name and shape and agrees with a reference that was built from it, so the head is
compared by content, three ways: the package's constants, the export's lm_head, the target's own head package.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.compare import differing
from forgepack.verify.report import Finding
from forgepack.verify.rule import rule
from forgepack.verify.subject import Pair

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
