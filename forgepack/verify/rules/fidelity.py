"""WGT, the quantization's part: the quantized matrices are made of the checkpoint's weights."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.geometry import lut_matrices
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_SOURCES = ("quant", "checkpoint")
_AFTER = ("SRC005", "SRC011", "SRC013", "WGT00", "NUM00")


def _deviations(pair: Pair, *, lut4: bool, loose: bool = False) -> Iterator[Finding]:
    matrices = lut_matrices(pair.profile.geometry)
    for one in pair.deviations.value:
        if one.loose is loose and (one.tensor.rpartition(".")[0] in matrices) is lut4:
            where = pair.place(pair.quant.value.path, one.tensor)
            yield Finding(subject=one.tensor, expected=one.expected, found=one.found, where=where)


@rule(
    "WGT030",
    title="every LUT4 matrix is a rounding of the checkpoint's, row by row",
    why="a report's digest vouches for the file, not for its origin: a negated or foreign row keeps every shape",
    remedy="quantize this checkpoint again",
    depth="lineage",
    needs=_SOURCES,
    after=_AFTER,
    since=2,
    closes="scales of 7 of 28 matrices rolled and negated passed beside their checkpoint",
)
def lut4_rows(pair: Pair) -> Iterator[Finding]:
    """Each row's scale is one that the recipe gives its source, and it keeps as much of it as by plain rounding.

    GPTQ's freedom is left to it: an index that is off by a few steps is not found. By plain rounding all is equal.
    """
    return _deviations(pair, lut4=True)


@rule(
    "WGT031",
    title="every INT8 matrix is the checkpoint's, rounded plainly",
    why="plain rounding leaves no freedom: another code or scale is another weight",
    remedy="quantize this checkpoint again",
    depth="lineage",
    needs=_SOURCES,
    after=_AFTER,
    since=2,
    closes="integer codes that are not the checkpoint's rounding passed",
)
def int8_rows(pair: Pair) -> Iterator[Finding]:
    """Codes and scales of each INT8 matrix equal those computed again from the checkpoint."""
    return _deviations(pair, lut4=False)


@rule(
    "WGT032",
    title="16 codes hold every row of the checkpoint's matrices",
    why="values far beyond the codebook are cut: such a row drafts worse",
    remedy="nothing, if the checkpoint is meant to have such rows",
    severity="note",
    depth="lineage",
    needs=_SOURCES,
    since=2,
)
def reachable_rows(pair: Pair) -> Iterator[Finding]:
    """Plain rounding to the codebook keeps at least 0.6 of every row."""
    return _deviations(pair, lut4=True, loose=True)
