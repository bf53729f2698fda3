"""NUM: scales and folds are the recipe's, values are finite, and the package computes what the drafter is."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.compare import differing, same
from forgepack.verify.report import Finding
from forgepack.verify.rule import rule
from forgepack.verify.subject import Pair


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
    if not same(found, expected):
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
        if not same(sidecar.get(key), value):
            where = pair.place(pair.layout.sidecar, key)
            yield differing(f"fold {key}", where, expected=value, found=sidecar.get(key))
