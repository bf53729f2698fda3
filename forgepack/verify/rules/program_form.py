"""PKG, the program's form: what it declares beside its operations, and the length of its constants."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.checks.faults import reported_row
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


@rule(
    "PKG030",
    title="whatever else the program declares is what this tool emits",
    why="an encoding, a mapped name or an attribute changes how a port is fed while its name and shape stay",
    remedy="emit the package again; a package of other tools can't be proven",
    depth="lineage",
    needs=("comparison",),
    after=("PKG018", "PKG019"),
    since=2,
    closes="a program with another port or attribute passed",
)
def declarations(pair: Pair) -> Iterator[Finding]:
    """Types with encodings, attributes of ports, entry points, constants and the program are the emitted ones."""
    for difference in pair.comparison.value.differences:
        if difference.kind == "declaration":
            where = pair.place(pair.layout.asset, difference.where)
            yield differing("declaration of the program", where, expected=difference.expected, found=difference.found)


ROWS = (
    reported_row(
        "PKG031",
        demand=(
            "Each constant of the drafter's program and of the target's head package has as many bytes as its "
            "type says."
        ),
        title="every constant's buffer is exactly as long as its type",
        why="Core AI does not check it: a short buffer is filled with the bytes after it, a long one hides bytes",
        remedy="restore the package from its source, or emit it again",
        depth="lineage",
        each_of=("program", "target_head"),
        codes=("buffer-length",),
        after=("PKG012", "PKG013"),
        since=2,
        closes="a constant shorter than its type passed",
    ),
)
