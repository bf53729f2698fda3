"""What a document of this tool says of itself, written down as facts: config, sidecar, inventory of a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from forgepack.artifacts.config import DrafterConfig
from forgepack.artifacts.unproven import unproven_sources
from forgepack.json_values import lookup
from forgepack.release.inspect.notes import Notes

Json = Mapping[str, Any]


def leaves(raw: Json, paths: Iterable[str]) -> str:
    """Return the values at some paths in one line, those that are there, each after the first key of its path."""
    found = ((path.partition(".")[0], lookup(raw, path)) for path in paths)
    return ", ".join(f"{name} {value}" for name, value in found if value is not None)


def tell(notes: Notes, raw: Json, **paths: str) -> None:
    """Write down the values at some paths, those that are there."""
    for name, path in paths.items():
        value = lookup(raw, path)
        if value is not None:
            notes.facts[name.replace("_", " ")] = value


def drafter_config_facts(notes: Notes, config: DrafterConfig) -> None:
    """Write down a drafter's config: taps, mask token, sizes, and the profiles that it fits."""
    raw = config.raw
    inner = raw.get("dflash_config")
    notes.identity["config"] = config.sha256
    tell(
        notes, raw, layers="num_hidden_layers", hidden="hidden_size", vocabulary="vocab_size", window="sliding_window"
    )
    if isinstance(inner, dict):
        tell(notes, inner, taps="target_layer_ids", block="block_size", mask_token="mask_token_id")  # noqa: S106
    fits = [p.name for p in notes.profiles if not list(config.faults(p.geometry))]
    notes.facts["geometry of profile"] = ", ".join(fits) if fits else "none of the known ones"


def sidecar_facts(notes: Notes, raw: Json) -> None:
    """Write down what a drafter's sidecar says of itself, its target and its sources."""
    bound = raw.get("forgepack")
    tell(notes, raw, target_export="target_export", head_export="head_export", mask_scale="mask_scale", window="W")
    entries = raw.get("entries")
    if isinstance(entries, dict):
        notes.facts["entries"] = ", ".join(sorted(map(str, entries)))
    if not isinstance(bound, dict):
        notes.facts["bound"] = "no: written by other scripts, nothing in it is a digest"
        return
    tell(notes, bound, profile="profile.name", method="quantization.method", taps="target.taps.layer_ids")
    # No profile is applied here: whether one pins the files is for verify to say.
    for number, sentence in enumerate(unproven_sources(bound, pinned=False)):
        notes.facts["not proven" if number == 0 else f"not proven, {number + 1}"] = sentence
    digests = {
        "program": f"package.files.{lookup(bound, 'package.asset')}/main.mlirb.sha256",
        "checkpoint weights": "checkpoint.model_sha256",
        "head": "target.head.sha256",
        "tokenizer": "target.tokenizer.sha256",
        "quantized drafter": "quantization.drafter_quant_sha256",
    }
    commit = lookup(bound, "checkpoint.commit")
    if commit is not None:
        notes.identity["checkpoint"] = f"{lookup(bound, 'checkpoint.repo')} @ {commit}"
    for name, path in digests.items():
        value = _file_digest(bound, path) if name == "program" else lookup(bound, path)
        if isinstance(value, str):
            notes.identity.setdefault(name, value)


def _file_digest(bound: Json, path: str) -> Any:
    """Return a listed file's digest; file names hold dots, so they are not a dotted path."""
    name = path.removeprefix("package.files.").removesuffix(".sha256")
    files = lookup(bound, "package.files")
    entry = files.get(name) if isinstance(files, dict) else None
    return entry.get("sha256") if isinstance(entry, dict) else None


def release_facts(notes: Notes, raw: dict[str, Any]) -> None:
    """Write down what a release.json says, leniently: checking it is the verifier's."""
    upstream, drafter = raw.get("upstream_model"), raw.get("drafter")
    if isinstance(upstream, dict):
        notes.identity["upstream"] = f"{upstream.get('id')} @ {upstream.get('revision')}"
    if isinstance(drafter, dict):
        notes.facts["drafter"] = leaves(drafter, ("path", "model", "target_export", "head_export"))
        notes.facts["taps"] = drafter.get("taps")
    files = raw.get("files")
    items = [item for item in files if isinstance(item, dict)] if isinstance(files, list) else []
    components = Counter(str(item.get("component")) for item in items)
    notes.facts["components"] = ", ".join(f"{name} {count}" for name, count in sorted(components.items()))
    sizes = [item.get("bytes") for item in items]
    notes.facts["bytes"] = sum(size for size in sizes if type(size) is int)
    notes.facts["schema version"] = raw.get("schema_version")
