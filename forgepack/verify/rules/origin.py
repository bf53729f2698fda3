"""SRC, the binding's part: the sources that sidecar and DFLASH2_SOURCE.json state are the pinned and given ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.facts.checkpoint import checkpoint_facts
from forgepack.facts.fact import differences
from forgepack.facts.quantization import quantization_facts
from forgepack.json_values import lookup
from forgepack.verify.checks.binding import against, bound, compared, must_state, stated_at
from forgepack.verify.checks.recipe import recipe_differences
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.layout import CONFIG_FILE, LICENCE_FILE, NOTICE_FILE, SOURCE_FILE
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule


@rule(
    "SRC016",
    title="the package was made from the profile's repository and commit",
    why="a branch moves: the same name at another commit is another drafter",
    remedy="emit the package from the pinned checkpoint",
    needs=("binding",),
)
def bound_commit(pair: Pair) -> Iterator[Finding]:
    """Repository and commit that the sidecar states are the profile's."""
    yield from must_state(pair, "checkpoint.repo", pair.profile.hub.repo)
    yield from must_state(pair, "checkpoint.commit", pair.profile.hub.commit)


@rule(
    "SRC017",
    title="the package's config.json is the checkpoint's that the sidecar states",
    why="an edited config is another drafter under the same weights",
    remedy="restore config.json from the checkpoint",
    needs=("binding", "config"),
    after=(
        "TAP",
        "VOC",
        "CTR01",
        "WGT005",
    ),
)
def bound_config(pair: Pair) -> Iterator[Finding]:
    """config.json of the package has the SHA-256 that the sidecar states of the checkpoint's."""
    config = pair.config.value
    return against(pair, "checkpoint.config_sha256", config.sha256, pair.place(config.path), subject="config.json")


@rule(
    "SRC018",
    title="the given checkpoint is the one that the package was made from",
    fails="the package was NOT made from the given checkpoint",
    why="proof against another checkpoint proves nothing of this package",
    remedy="name the checkpoint that the package was emitted from",
    needs=("binding", "lock"),
    after=("SRC003",),
)
def bound_checkpoint(pair: Pair) -> Iterator[Finding]:
    """Repository, commit, lock, weights and config of the checkpoint's lock are those that the sidecar states."""
    root = pair.sources.checkpoint
    assert root is not None, "it has a lock"
    return compared(pair, "checkpoint", checkpoint_facts(root, pair.lock.value))


@rule(
    "SRC020",
    title="the package was quantized by the profile's recipe",
    why="plain rounding gives a package that loads alike and drafts worse",
    remedy="quantize and emit again with the profile's recipe",
    needs=("binding",),
)
def bound_recipe(pair: Pair) -> Iterator[Finding]:
    """Variant, method, recipe and profile of the quantization that the sidecar states are the profile's."""
    yield from must_state(pair, "quantization.variant", pair.profile.recipe.variant)
    yield from must_state(pair, "quantization.method", "gptq")
    yield from must_state(pair, "quantization.profile_sha256", pair.profile.digest)
    method, recipe = (bound(pair, f"quantization.{key}") for key in ("method", "recipe"))
    for path, expected, found in recipe_differences(pair.profile, method, recipe):
        where = stated_at(pair, f"quantization.{path}")
        yield differing(f"quantization.{path}", where, expected=expected, found=found)


@rule(
    "SRC021",
    title="DFLASH2_SOURCE.json states the sources that the sidecar states",
    why="it is what people and other tools read first; it must not state another origin",
    remedy="emit the package again",
    needs=("binding", "origin"),
    after=(
        "TAP",
        "SRC016",
        "SRC020",
        "NUM007",
        "PKG015",
    ),
)
def source_record(pair: Pair) -> Iterator[Finding]:
    """DFLASH2_SOURCE.json is what the emitter writes for this sidecar's binding."""
    origin = pair.origin.value
    where = pair.sources.drafter / SOURCE_FILE
    expected = expected_record(pair, lookup(origin, "checkpoint.files"))
    if expected is None:
        yield differing(
            "binding", stated_at(pair, "quantization"), expected="all its parts", found="parts are missing"
        )
        return
    for path, wanted, found in differences(expected, origin):
        yield differing(f"{path} of the source record", pair.place(where, path), expected=wanted, found=found)


def expected_record(pair: Pair, files: Any) -> dict[str, Any] | None:
    """Return what DFLASH2_SOURCE.json must hold by the binding; None when the binding lacks a part of it."""
    from forgepack.emit.inputs import Identity
    from forgepack.emit.sidecar_content import source_record as make_record

    stated = pair.binding.value
    try:
        identity = Identity(
            checkpoint=stated["checkpoint"], target=stated["target"], quantization=stated["quantization"]
        )
        return make_record(pair.profile, identity, files if isinstance(files, Mapping) else {})
    except (KeyError, TypeError, AttributeError):
        return None


@rule(
    "SRC022",
    title="DFLASH2_SOURCE.json lists the checkpoint's files with their digests",
    why="the list is the package's own copy of the lock",
    remedy="emit the package again",
    depth="hash",
    needs=("binding", "origin", "digests"),
    after=(
        "SRC017",
        "SRC018",
        "SRC021",
        "LIC004",
        "PKG015",
        "PKG014",
    ),
)
def source_files(pair: Pair) -> Iterator[Finding]:
    """Config, licence and notice have the listed digests here, and the weights the one that the sidecar states."""
    listed = lookup(pair.origin.value, "checkpoint.files")
    where = pair.sources.drafter / SOURCE_FILE
    expected: dict[str, Any] = {"model.safetensors": bound(pair, "checkpoint.model_sha256")}
    for name in (CONFIG_FILE, LICENCE_FILE, NOTICE_FILE):
        digest = pair.digests.value.get(pair.sources.drafter / name)
        expected[name] = None if digest is None else digest.sha256
    for name, sha256 in sorted(expected.items()):
        record = listed.get(name) if isinstance(listed, Mapping) else None
        found = record.get("sha256") if isinstance(record, Mapping) else None
        if found != sha256:
            place = pair.place(where, f"checkpoint.files.{name}")
            yield differing(f"{name} of the source record", place, expected=sha256, found=found)
    if pair.lock.available:
        locked = {f.path: {"bytes": f.bytes, "sha256": f.sha256} for f in pair.lock.value.files}
        for path, wanted, found in differences(locked, listed):
            place = pair.place(where, f"checkpoint.files.{path}")
            yield differing(f"{path} of the source record", place, expected=wanted, found=found)


ROWS = (
    row(
        "SRC019",
        lambda pair: compared(pair, "quantization", quantization_facts(pair.quant_report.value)),
        demand="Recipe, calibration and digests of the given report are those that the sidecar states.",
        title="the given quantized drafter is the one that the package was made from",
        fails="the package was NOT made from the given quantized drafter",
        why="proof against another quantization proves nothing of this package",
        remedy="name the quantized drafter that the package was emitted from",
        needs=("binding", "quant_report"),
    ),
)
