"""CTR: sidecar, configs and manifest say the same thing as the profile and as each other."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.config import ConfigFault, DrafterConfig
from forgepack.json_values import equal_json
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

# Checked by the rules of their own areas.
_ELSEWHERE = {"dflash_config.target_layer_ids", "dflash_config.mask_token_id", "vocab_size", "dtype", "torch_dtype"}


def _drafter_configs(pair: Pair) -> Iterator[DrafterConfig]:
    for source in (pair.config, pair.checkpoint_config):
        if source.available:
            yield source.value


def _config_faults(pair: Pair, *codes: str) -> Iterator[Finding]:
    for config in _drafter_configs(pair):
        for fault in config.faults(pair.profile.geometry):
            if fault.code in codes and fault.path not in _ELSEWHERE:
                yield _fault(pair, config, fault)


def _fault(pair: Pair, config: DrafterConfig, fault: ConfigFault) -> Finding:
    message = f"{fault.other} states another value" if fault.other else ""
    return Finding(
        subject=f"{fault.path} of the drafter's config",
        expected=fault.expected,
        found=fault.found,
        where=pair.place(config.path, fault.path),
        message=message,
    )


@rule(
    "CTR012",
    title="no config contradicts itself",
    fails="a config contradicts itself",
    why="tools read the outer or the nested value, so two of them see two models",
    remedy="make both values agree with the source",
    each_of=("config", "checkpoint_config", "target_config"),
)
def conflicts(pair: Pair) -> Iterator[Finding]:
    """What a config states twice agrees: outer and nested object, flat key and rope_parameters, both dtypes."""
    yield from _config_faults(pair, "conflict")
    if pair.target_config.available:
        config = pair.target_config.value
        for fault in config.conflicts:
            yield Finding(
                subject=f"{fault.path} of the target's config",
                expected=fault.expected,
                found=fault.found,
                where=pair.place(config.path, fault.path),
                message=f"{fault.other} states another value",
            )


@rule(
    "CTR013",
    title="the target has the profile's hidden size and number of layers",
    why="features of another width do not fit, and another number of layers is another target",
    remedy="use the target that the drafter was trained for",
    needs=("target_config",),
)
def target_geometry(pair: Pair) -> Iterator[Finding]:
    """Hidden size, layers and embedding width of the target are the profile's."""
    config, geometry = pair.target_config.value, pair.profile.geometry
    stated = [
        ("hidden size of the target", pair.place(config.path, "hidden_size"), geometry.hidden, config.hidden),
        (
            "layers of the target",
            pair.place(config.path, "num_hidden_layers"),
            geometry.target_layers,
            config.layers,
        ),
    ]
    if pair.embedding.available:
        table = pair.embedding.value
        stated.append(("width of the embedding", pair.place(table.path), geometry.hidden, table.shape[1]))
    for subject, where, expected, found in stated:
        if expected != found:
            yield differing(subject, where, expected=expected, found=found)


@rule(
    "CTR014",
    title="the target's manifest holds a block of the profile's size and whole contexts",
    why="the target verifies one block a call: other sizes have no entry point to run",
    remedy="build the target for this block size",
    needs=("manifest",),
)
def manifest_block(pair: Pair) -> Iterator[Finding]:
    """T of the manifest is the profile's block, and every context is a distinct positive number."""
    manifest, geometry = pair.manifest.value, pair.profile.geometry
    if not equal_json(manifest.block, geometry.block):
        where = pair.place(manifest.path, "T")
        yield differing("tokens of a verification", where, expected=geometry.block, found=manifest.block)
    contexts = manifest.contexts
    if not contexts or min(contexts) <= 0 or list(contexts) != sorted(set(contexts)):
        where = pair.place(manifest.path, "ctxs")
        yield differing("contexts", where, expected="distinct positive sizes, ascending", found=list(contexts))


@rule(
    "CTR015",
    title="the target's chunks cover its layers once, in order",
    why="a layer that no chunk or two chunks compute is another model",
    remedy="restore manifest.json from the target's release",
    needs=("manifest",),
)
def manifest_chunks(pair: Pair) -> Iterator[Finding]:
    """Chunk layer ranges are ascending and contiguous over all layers, each with a verification entry a context."""
    manifest = pair.manifest.value
    expected = 0
    for number, chunk in enumerate(manifest.chunks):
        first, last = chunk.layers
        if first != expected or last < first:
            where = pair.place(manifest.path, f"chunks[{number}].layers")
            yield differing("layers of a chunk", where, expected=f"from {expected} on", found=[first, last])
        expected = last + 1
        missing = [name for name in _verification_entries(pair) if name not in chunk.entries]
        if missing:
            where = pair.place(manifest.path, f"chunks[{number}].entries")
            yield differing("entries of a chunk", where, expected=missing, found=list(chunk.entries))
    if expected != pair.profile.geometry.target_layers:
        where = pair.place(manifest.path, "chunks")
        found = f"{expected} layers"
        yield differing("layers of all chunks", where, expected=pair.profile.geometry.target_layers, found=found)


def _verification_entries(pair: Pair) -> list[str]:
    """Return the names ``v<block>_<context>k`` that each chunk must offer."""
    block = pair.profile.geometry.block
    return [f"v{block}_{context // 1024}k" for context in pair.manifest.value.contexts if context % 1024 == 0]


ROWS = (
    reported_row(
        "CTR001",
        demand="The sidecar holds the object ``forgepack`` with the digests of package, target and sources.",
        title="the package is attested: its sidecar binds it to target and sources by digests",
        fails="the sidecar does NOT bind the package to target and sources by digests",
        why="names alone bind nothing: a rebuilt head, another export or an edited weight keeps every name",
        remedy="emit the package with forgepack emit; the other checks say what is known without it",
        each_of=("binding",),
        codes=("unattested", "binding"),
        after=("PKG006",),
    ),
    row(
        "CTR010",
        lambda pair: _config_faults(pair, "kind", "value", "missing"),
        demand="Every number of the drafter's config that shapes or maths depend on is the profile's.",
        title="the drafter's config holds the profile's geometry",
        why="other numbers are another model, even where the tensors still fit",
        remedy="restore config.json from the checkpoint, or name the profile of this drafter",
        needs=("config",),
    ),
    row(
        "CTR011",
        lambda pair: _config_faults(pair, "unimplemented", "unknown-key"),
        demand="No key of the drafter's config is unknown or set to a value that is not implemented.",
        title="the drafter's config asks for nothing that this package does not do",
        fails="the drafter's config asks for what this package does not do",
        why="a key that changes the maths and is ignored gives another model, and nothing reports it",
        remedy="use a drafter without the key; this tool refuses what it does not implement",
        needs=("config",),
    ),
    reported_row(
        "CTR016",
        demand="manifest.json names export, taps, block, contexts, chunks and head, each of its type.",
        title="the target's manifest has the fields that the runtime reads",
        why="a field that is missing or of another type leaves chunks, head or taps unknown",
        remedy="restore manifest.json from the target's release",
        codes=("manifest",),
    ),
    reported_row(
        "CTR017",
        demand="The target's config, nested or not, holds the numbers that the pair shares.",
        title="the target's config states hidden size, vocabulary, layers and end tokens",
        why="without these numbers nothing of the pair can be compared",
        remedy="restore the target's config.json",
        codes=("config-value",),
    ),
)
