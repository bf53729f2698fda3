"""WGT, the program's part: every constant is in its place and is what its sources make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forgepack.facts.fact import differences
from forgepack.verify.checks.binding import bound, stated_at
from forgepack.verify.checks.derivation import (
    CHECKPOINT,
    FIXED,
    HEAD,
    QUANT,
    TARGET,
    derived_differences,
    expected_records,
)
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule


@rule(
    "WGT010",
    title="every constant of the program was found in its place",
    why="a constant that is not where the emitted program has it can't be proven",
    remedy="emit the package again",
    depth="lineage",
    needs=("roles",),
    after=("PKG018", "PKG019"),
)
def constants_found(pair: Pair) -> Iterator[Finding]:
    """The program uses a constant wherever the emitted one uses a role of the constant table."""
    for role in pair.roles.value.unmet:
        where = pair.place(pair.layout.asset, role)
        yield differing(f"constant {role}", where, expected="a constant of the program", found="none in its place")


@rule(
    "WGT011",
    title="every constant of the program is the one that the sidecar records",
    fails="constants of the program are NOT those that the sidecar records",
    why="an edited weight keeps names, shapes and, with main.hash written again, every check of the file itself",
    remedy="restore the package from its source, or emit it again",
    depth="lineage",
    needs=("roles", "binding"),
    after=(
        "WGT010",
        "PKG015",
    ),
)
def recorded(pair: Pair) -> Iterator[Finding]:
    """Type, shape, digest and formula that the sidecar records of each role are those of program and emitter."""
    stated = bound(pair, "package.constants")
    records = stated if isinstance(stated, Mapping) else {}
    expected = expected_records(pair)
    for role in sorted({*expected, *records}):
        where = stated_at(pair, f"package.constants.{role}")
        for path, found, wanted in differences(expected.get(role), records.get(role)):
            subject = f"constant {role}"
            message = f"{path or 'record'} in the program against the sidecar's"
            yield differing(subject, where, expected=wanted, found=found, message=message)


ROWS = (
    row(
        "WGT012",
        lambda pair: derived_differences(pair, QUANT),
        demand=(
            "Tables, indices, codes and scales equal the quantized drafter's, computed again by the emitter's table."
        ),
        title="matrices of the package are the quantized drafter's under the documented folds",
        fails="matrices of the package are NOT the quantized drafter's",
        why="an edited or mixed-up matrix drafts worse and changes no shape; a run within a tolerance shows nothing",
        remedy="emit the package again from this quantized drafter",
        depth="lineage",
        needs=("roles", "quant"),
        after=(
            "SRC019",
            "NUM00",
            "WGT011",
        ),
    ),
    row(
        "WGT013",
        lambda pair: derived_differences(pair, CHECKPOINT),
        demand=("Constants that come from the checkpoint equal its tensors, computed again by the emitter's table."),
        title="norms, base kernels and hidden projection of the package are the checkpoint's",
        fails="norms, base kernels or the hidden projection are NOT the checkpoint's",
        why="they are few and small, and every row of the drafter passes through them",
        remedy="emit the package again from this checkpoint",
        depth="lineage",
        needs=("roles", "checkpoint"),
        after=(
            "SRC018",
            "NUM00",
            "WGT011",
        ),
    ),
    row(
        "WGT014",
        lambda pair: derived_differences(pair, FIXED),
        demand="Constants that depend on no source hold what the emitter's table says.",
        title="constants without a source have their fixed values",
        why="zero points and zero rows are part of the maths",
        remedy="emit the package again",
        depth="lineage",
        needs=("roles",),
        after=("WGT011",),
    ),
    row(
        "WGT015",
        lambda pair: derived_differences(pair, HEAD),
        demand=(
            "Tables, indices and scales of each head part equal lm_head.safetensors, computed by the emitter's table."
        ),
        title="head constants of the package are the export's in this tool's own parts and folds",
        why="the normal form forgives other parts; a package of this tool has none",
        remedy="emit the package again for this target",
        depth="lineage",
        needs=("roles", "emitted_head"),
        after=("HEAD003", "NUM00", "WGT011"),
    ),
    row(
        "WGT016",
        lambda pair: derived_differences(pair, TARGET),
        demand="The baked-in row equals the embedding's row of the profile's mask token, bit for bit.",
        title="the mask row of the package is the target's embedding of the mask token",
        fails="the package's mask row is NOT the target's embedding of the mask token",
        why="every draft starts from it; a row of another embedding or token drafts noise",
        remedy="emit the package again for this target",
        depth="lineage",
        needs=("roles", "embedding"),
        after=("WGT011",),
    ),
)
