"""NUM: scales and folds are the recipe's, values are finite, and the package computes what the drafter is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from forgepack.json_values import equal_json
from forgepack.verify.checks.binding import bound, must_state, stated_at
from forgepack.verify.checks.derivation import expected_narrowing
from forgepack.verify.checks.values import Weight, emptiness, nonfinite, weights_of
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.lineage import constant_values
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

MASKED_NORM = "layers.0.input_layernorm"
SMALLEST_NORMAL = 2.0**-14
_FILES = ("selector", "head", "checkpoint", "quant")


@rule(
    "NUM001",
    title="the sidecar's mask scale is the profile's",
    why="the host and every later check take the mask scale from here; it changes drafts without changing a shape",
    remedy="emit the package again with the profile's mask scale",
    needs=("sidecar",),
)
def mask_scale(pair: Pair) -> Iterator[Finding]:
    """mask_scale of the sidecar is the profile's."""
    expected, found = pair.profile.recipe.mask_scale, pair.sidecar.value.get("mask_scale")
    if not equal_json(found, expected):
        where = pair.place(pair.layout.sidecar, "mask_scale")
        yield differing("mask scale", where, expected=expected, found=found)


@rule(
    "NUM002",
    title="the sidecar's folds are the profile's",
    why="the host scales features and reads the residual by these numbers; a wrong one scales every activation",
    remedy="emit the package again",
    needs=("sidecar",),
)
def folds(pair: Pair) -> Iterator[Finding]:
    """resid_scale, lut_f and feat_scale of the sidecar are the profile's."""
    recipe, sidecar = pair.profile.recipe, pair.sidecar.value
    expected = {
        "resid_scale": recipe.resid_scale,
        "lut_f": {"down": recipe.lut_fold_down, "default": recipe.lut_fold_default},
        "feat_scale": recipe.feat_scale,
    }
    for key, value in expected.items():
        if not equal_json(sidecar.get(key), value):
            where = pair.place(pair.layout.sidecar, key)
            yield differing(f"fold {key}", where, expected=value, found=sidecar.get(key))


def _weights(pair: Pair) -> Iterator[tuple[Path, Weight]]:
    for name in _FILES:
        source = pair.input(name)
        if source.available:
            yield from ((source.value.path, weight) for weight in weights_of(source.value))
    if pair.embedding.available:
        table = pair.embedding.value
        raw = lambda: table.table().reshape(-1).view(np.uint8)  # noqa: E731
        yield table.path, Weight(name="", dtype="F16", shape=table.shape, raw=raw)


@rule(
    "NUM003",
    title="the mask scale in the package is the profile's, derived again from its own weights",
    why="the sidecar only states the scale; the rows of layer 0's input norm apply it",
    remedy="emit the package again with the profile's mask scale",
    depth="lineage",
    needs=("roles",),
)
def mask_scale_applied(pair: Pair) -> Iterator[Finding]:
    """Rows 1.. of layer 0's input norm are float16(float32(w) * scale) of row 0's w, in every channel."""
    values = constant_values(pair.program.value, pair.comparison.value, MASKED_NORM, reader=pair.reader)
    if values is None:
        return
    scale = np.float32(pair.profile.recipe.mask_scale)
    anchor = values[0, :, 0, 0].astype(np.float32)
    expected = (anchor * scale).astype(np.float16)
    # Below float16's normal range the anchor's own rounding hides w: these channels are proven by digest alone.
    exact = np.abs(anchor) >= SMALLEST_NORMAL
    differs = (values[0, :, 0, 1:] != expected[:, None]) & exact[:, None]
    if not differs.any():
        return
    channel, row = (int(n) for n in np.argwhere(differs)[0])
    ratio = float(values[0, channel, 0, row + 1]) / float(anchor[channel])
    yield differing(
        "mask scale of layer 0's input norm",
        pair.place(pair.layout.asset, MASKED_NORM),
        expected=pair.profile.recipe.mask_scale,
        found=f"{ratio:.5g}",
        message=f"{int(differs.sum())} of {differs.size} values; first in channel {channel}, row {row + 1}",
    )


@rule(
    "NUM004",
    title="no weight is NaN or infinite",
    fails="weights are NaN or infinite",
    why="one such value spreads over a whole layer, and drafts become the first ids of the vocabulary",
    remedy="restore the file from its source",
    depth="lineage",
    each_of=(*_FILES, "embedding"),
)
def finite(pair: Pair) -> Iterator[Finding]:
    """Every floating value of selector, head, embedding, checkpoint and quantized drafter is finite."""
    for path, weight in _weights(pair):
        bad = nonfinite(weight)
        if bad is not None:
            where = pair.place(path, weight.name)
            found = f"{bad[0]} values, first at flat index {bad[1]}"
            yield differing(weight.name or "embedding", where, expected="finite values", found=found)


@rule(
    "NUM005",
    title="no weight is all zero, zero-filled or constant",
    fails="a weight is all zero, zero-filled or constant",
    why="a hole that a failed download or a file saved over itself left reads as zeros and raises no error",
    remedy="restore the file from its source",
    depth="lineage",
    each_of=(*_FILES, "embedding"),
    waivable=True,
)
def not_empty(pair: Pair) -> Iterator[Finding]:
    """No tensor of two axes or more is zero as a whole or over a quarter, or holds one value alone."""
    for path, weight in _weights(pair):
        found = emptiness(weight)
        if found is not None:
            where = pair.place(path, weight.name)
            yield differing(weight.name or "embedding", where, expected="weights that vary", found=found)


@rule(
    "NUM006",
    title="every index of a palettized matrix is below 16",
    why="only four bits are stored in the package: a larger index would name another value",
    remedy="quantize again; restore the target's export",
    depth="lineage",
    each_of=("quant", "head"),
)
def indices(pair: Pair) -> Iterator[Finding]:
    """Indices of the quantized drafter and of the export's head are 0 to 15."""
    for name in ("quant", "head"):
        source = pair.input(name)
        if name == "head" and pair.export_digest.available:
            continue  # its digest was taken of indices that are all below 16
        for weight in weights_of(source.value) if source.available else ():
            if weight.name.endswith(".idx") and weight.dtype == "U8":
                top = int(weight.raw().max(initial=0))
                if top > 15:
                    where = pair.place(source.value.path, weight.name)
                    yield differing(weight.name, where, expected="0 to 15", found=top)


@rule(
    "NUM007",
    title="the binding deploys the profile's mask scale, and keeps the calibration's apart",
    why="a package calibrated at one scale may be deployed at another: both must be known, one must be the profile's",
    remedy="quantize and emit again with the profile's mask scale",
    needs=("binding",),
)
def bound_mask_scales(pair: Pair) -> Iterator[Finding]:
    """The deployed mask scale is the profile's; the calibration's is a number over 0 and at most 1."""
    yield from must_state(pair, "quantization.mask_scale.deployment", pair.profile.recipe.mask_scale)
    found = bound(pair, "quantization.mask_scale.calibration")
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= 1:
        where = stated_at(pair, "quantization.mask_scale.calibration")
        yield differing("mask scale of the calibration", where, expected="over 0, at most 1", found=found)


@rule(
    "NUM008",
    title="the drafter was calibrated at the mask scale that it is deployed with",
    why="Hessians taken at another scale weigh the rows otherwise: legal history, but it must be known",
    remedy="quantize again at the deployed mask scale, or accept the older calibration",
    severity="note",
    needs=("binding",),
)
def one_mask_scale(pair: Pair) -> Iterator[Finding]:
    """Calibration and deployment have one mask scale."""
    scales = bound(pair, "quantization.mask_scale")
    if isinstance(scales, Mapping) and scales.get("calibration") != scales.get("deployment"):
        where = stated_at(pair, "quantization.mask_scale")
        expected, found = scales.get("deployment"), scales.get("calibration")
        yield differing("mask scale of the calibration", where, expected=expected, found=found)


@rule(
    "NUM010",
    title="the binding counts the values that float16 could not hold",
    fails="the binding does NOT count the values that float16 could not hold",
    why="the counts say how much of the drafter the folds cost: a count that is off hides a loss",
    remedy="emit the package again",
    depth="lineage",
    needs=("binding", "quant", "checkpoint", "emitted_head", "embedding"),
    after=("NUM004", "PKG015", "WGT012", "WGT013", "WGT015"),
)
def narrowed(pair: Pair) -> Iterator[Finding]:
    """The counts of changed and zeroed values are those that the sources give under the emitter's table."""
    expected = expected_narrowing(pair)
    if expected is not None:
        yield from must_state(pair, "package.narrowed", expected)
