"""SRC, what stands behind the sources: adopted folders, traces without identity, digests that the profile pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.artifacts.lock import LOCK_NAME
from forgepack.artifacts.unproven import adopted_sources, unbound_traces
from forgepack.json_values import lookup
from forgepack.verify.checks.binding import bound, stated_at
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.layout import CONFIG_FILE, SOURCE_FILE
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


@rule(
    "SRC040",
    title="the package's checkpoint was compared with the hub's record, or with digests that the profile pins",
    fails="the checkpoint's bytes were never compared with the hub's record or with pinned digests",
    why="an adopted folder is locked to itself: any weights of the right shapes can stand in it",
    remedy="fetch the checkpoint with forgepack fetch, quantize and emit again; or use a profile that pins it",
    severity="warning",
    needs=("binding",),
    since=2,
)
def not_adopted(pair: Pair) -> Iterator[Finding]:
    """The sidecar does not say that its checkpoint was adopted, unless the profile pins every file of it."""
    for one in adopted_sources(pair.binding.value, pinned=pair.profile.hub.pins_all):
        yield differing(
            "checkpoint", stated_at(pair, one.path), expected=one.wanted, found=one.found, message=one.sentence
        )


@rule(
    "SRC041",
    title="the traces of the quantization state what they were recorded of",
    why="traces of another drafter or target calibrate for what is never run, and nothing shows it",
    remedy="record traces that carry their identity, quantize and emit again",
    severity="warning",
    needs=("binding",),
    since=2,
)
def traces_bound(pair: Pair) -> Iterator[Finding]:
    """Calibration and held-out traces that the sidecar states carry an identity."""
    for one in unbound_traces(pair.binding.value):
        yield differing(
            "traces", stated_at(pair, one.path), expected=one.wanted, found=one.found, message=one.sentence
        )


@rule(
    "SRC042",
    title="the checkpoint's files are those that the profile pins",
    why="other weights of the same names and shapes draft badly, without an error",
    remedy="fetch the pinned checkpoint, quantize and emit again",
    needs=("binding",),
    after=("SRC001",),
    since=2,
    closes="an adopted checkpoint of other weights passed",
)
def pinned_files(pair: Pair) -> Iterator[Finding]:
    """Every digest that sidecar, lock and DFLASH2_SOURCE.json state of a pinned file is the pinned one."""
    pins = pair.profile.hub.sha256
    for name, where, found in _stated(pair):
        if name in pins and found != pins[name]:
            yield differing(f"{name} of the checkpoint", where, expected=pins[name], found=found)


def _stated(pair: Pair) -> Iterator[tuple[str, str, Any]]:
    """Yield (file, place, digest) of every statement of a file of the checkpoint."""
    for name, key in (("model.safetensors", "model_sha256"), (CONFIG_FILE, "config_sha256")):
        yield name, stated_at(pair, f"checkpoint.{key}"), bound(pair, f"checkpoint.{key}")
    if pair.lock.available and pair.sources.checkpoint is not None:
        for number, file in enumerate(pair.lock.value.files):
            yield file.path, pair.place(pair.sources.checkpoint / LOCK_NAME, f"files[{number}].sha256"), file.sha256
    listed = lookup(pair.origin.value, "checkpoint.files") if pair.origin.available else None
    for name, record in listed.items() if isinstance(listed, dict) else ():
        place = pair.place(pair.sources.drafter / SOURCE_FILE, f"checkpoint.files.{name}.sha256")
        yield name, place, lookup(record, "sha256")
