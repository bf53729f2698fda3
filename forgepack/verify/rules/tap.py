"""TAP: the drafter listens to the outputs of the layers it was trained on, in that order.

Every statement of the taps is checked against the profile: the drafter's config, the target's manifest, the sidecar.
Each kind of fault has its own rule, because each has its own cause and cure.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.facts.target import taps_record
from forgepack.verify.checks.binding import must_state
from forgepack.verify.checks.taps import Kind, classify, describe, statements
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_STATED = ("config", "checkpoint_config", "manifest")
_REMEDY = "restore config.json from the checkpoint and the manifest from the target's release"


def _faults(pair: Pair, *kinds: Kind) -> Iterator[Finding]:
    expected, layers = pair.profile.geometry.taps, pair.profile.geometry.target_layers
    for statement in statements(pair):
        kind = classify(statement.zero_based, expected, layers)
        if kind in kinds:
            yield Finding(
                subject="taps (0-based ids of target layers)",
                expected=str(list(expected)),
                found=str(statement.zero_based),
                where=statement.where,
                message=describe(kind, statement.zero_based, expected, layers),
            )


@rule(
    "TAP007",
    title="every tap is a layer of the target",
    why="a tap past the last layer fails at the first decode, or reads another buffer",
    remedy="use a target with enough layers, or the drafter of this target",
    each_of=_STATED,
)
def in_range(pair: Pair) -> Iterator[Finding]:
    """Ids of each statement are below the profile's and the target's number of layers."""
    yield from _faults(pair, "range")
    if not pair.target_config.available:
        return
    config = pair.target_config.value
    top = max(pair.profile.geometry.taps)
    if config.layers <= top:
        yield Finding(
            subject="layers of the target",
            expected=f"at least {top + 1}, since layer {top} is tapped",
            found=str(config.layers),
            where=pair.place(config.path, "num_hidden_layers"),
        )


@rule(
    "TAP010",
    title="each chunk of the target states the taps inside it",
    why="a chunk that does not export its tap leaves the drafter without that layer's features",
    remedy="build the target with the taps of this drafter",
    needs=("manifest",),
)
def chunk_taps(pair: Pair) -> Iterator[Finding]:
    """The taps that a chunk of the manifest lists are those of the profile that are in its layers, in order."""
    manifest = pair.manifest.value
    for number, chunk in enumerate(manifest.chunks):
        first, last = chunk.layers
        expected = tuple(t for t in pair.profile.geometry.taps if first <= t <= last)
        if "taps" in manifest.raw["chunks"][number] and chunk.taps != expected:
            yield Finding(
                subject=f"taps of the chunk of layers {first} to {last}",
                expected=str(list(expected)),
                found=str(list(chunk.taps)),
                where=pair.place(manifest.path, f"chunks[{number}].taps"),
            )


@rule(
    "TAP012",
    title="no tap is the target's last layer",
    fails="a tap is the target's last layer",
    why="Hugging Face's last hidden state is taken after the final norm: legal, but the convention must be known",
    remedy="nothing, if the drafter was trained on raw layer outputs",
    severity="note",
)
def last_layer(pair: Pair) -> Iterator[Finding]:
    """The profile's taps leave out the target's last layer."""
    geometry = pair.profile.geometry
    if geometry.target_layers - 1 in geometry.taps:
        yield Finding(
            subject="taps",
            expected="a layer before the last",
            found=f"layer {geometry.target_layers - 1} of {geometry.target_layers}",
            where=f"profile {pair.profile.name}",
        )


@rule(
    "TAP011",
    title="the target's chunks export the drafter's taps",
    fails="the target's chunks do NOT export the drafter's taps",
    why="a tap that no program returns leaves the drafter with another layer's features, or none",
    remedy="build the target with the taps of this drafter",
    depth="lineage",
    needs=("manifest", "target_programs"),
)
def exported(pair: Pair) -> Iterator[Finding]:
    """Each entry point of a chunk returns tap<i> for every tap inside it, y for one on its last layer."""
    manifest = pair.manifest.value
    for number, chunk in enumerate(manifest.chunks):
        reading = pair.target_program(chunk.file)
        first, last = chunk.layers
        asked = [tap for tap in pair.profile.geometry.taps if first <= tap <= last]
        for function in reading.program.functions:
            offered = [port.name for port in function.outputs]
            missing = [tap for tap in asked if ("y" if tap == last else f"tap{tap}") not in offered]
            if missing:
                yield Finding(
                    subject=f"taps that {function.name} of {chunk.file} returns",
                    expected=f"taps {missing} (a tap on the last layer, {last}, is y)",
                    found=f"outputs {', '.join(offered)}",
                    where=pair.place(manifest.path, f"chunks[{number}]"),
                )


@rule(
    "TAP013",
    title="no chunk exports a layer that the drafter does not listen to",
    fails="a chunk exports a layer that the drafter does not listen to",
    why="outputs of other layers are read in their place where a runtime takes taps by position",
    remedy="build the target with the taps of this drafter",
    severity="warning",
    depth="lineage",
    needs=("manifest", "target_programs"),
)
def no_other_taps(pair: Pair) -> Iterator[Finding]:
    """Outputs of chunks named tap<i> are taps of the profile."""
    expected = {f"tap{tap}" for tap in pair.profile.geometry.taps}
    for name in sorted({chunk.file for chunk in pair.manifest.value.chunks}):
        for function in pair.target_program(name).program.functions:
            other = [port.name for port in function.outputs if _is_tap(port.name) and port.name not in expected]
            if other:
                where = pair.place(pair.sources.target.build / name, function.name)
                yield Finding(
                    subject=f"taps that {name} returns",
                    expected=", ".join(sorted(expected)),
                    found=", ".join(other),
                    where=where,
                )


def _is_tap(name: str) -> bool:
    return name.startswith("tap") and name[3:].isdigit()


ROWS = (
    row(
        "TAP001",
        lambda pair: _faults(pair, "missing", "type"),
        demand="Config, manifest and sidecar each state the taps as integers.",
        title="the taps are stated as a list of layer ids",
        why="a list that is derived has the right length and the wrong layers: the drafter loads and guesses badly",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP002",
        lambda pair: _faults(pair, "values"),
        demand="No statement names other layers of equal number.",
        title="the taps are the layers that the profile pins",
        fails="the taps are NOT the layers that the profile pins",
        why="features of other layers have the same shape; only acceptance falls",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP003",
        lambda pair: _faults(pair, "shifted"),
        demand="No statement differs from the pinned ids by exactly one everywhere.",
        title="the taps are not shifted by one",
        fails="every tap is shifted by one layer",
        why="runtimes that store i+1 hand over the next layer's features, which look alike",
        remedy="convert to 0-based layer outputs; Hugging Face hidden_states index minus one",
        each_of=_STATED,
    ),
    row(
        "TAP004",
        lambda pair: _faults(pair, "order"),
        demand="No statement holds the pinned ids in another order, sorted as text or otherwise.",
        title="the taps are in the order that fc was trained on",
        fails="the taps are NOT in the order that fc was trained on",
        why="fc multiplies each tap by its own columns; another order mixes layers and no shape shows it",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP005",
        lambda pair: _faults(pair, "duplicate"),
        demand="Ids of each statement are distinct.",
        title="no tap is listed twice",
        fails="a tap is listed twice",
        why="one layer in two places leaves another out",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP006",
        lambda pair: _faults(pair, "negative"),
        demand="Ids of each statement are natural numbers.",
        title="no tap is negative",
        fails="a tap is negative",
        why="a negative id is read from the end by some runtimes and refused by others",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP008",
        lambda pair: _faults(pair, "count"),
        demand="Each statement has as many ids as the profile.",
        title="there are as many taps as fc has inputs for",
        why="a tap that is dropped in conversion leaves fc reading another layer's features in its place",
        remedy=_REMEDY,
        each_of=_STATED,
    ),
    row(
        "TAP009",
        lambda pair: must_state(pair, "target.taps", taps_record(pair.profile.geometry)),
        demand=("The convention is layer_output_zero_based, and the Hugging Face list is each layer id plus one."),
        title="the binding states the taps in both conventions, and they agree",
        why="a list alone does not say whether it counts layer outputs or hidden states: two lists can't be mixed up",
        remedy="emit the package again",
        needs=("binding",),
        after=("TAP00",),
    ),
)
