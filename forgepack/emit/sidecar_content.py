"""What the package says of itself: sidecar, asset metadata, DFLASH2_SOURCE.json. No clock, no path, no host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forgepack import __version__
from forgepack.artifacts.sidecar import KIND
from forgepack.canonical import digest_json
from forgepack.coreai_backend.asset_writer import FIXED_DATE, AssetMetadata
from forgepack.coreai_backend.availability import DISTRIBUTION, PINNED_VERSION
from forgepack.emit.constant_spec import ConstantSpec, Narrowing
from forgepack.emit.constants_file import StoredConstant, narrowings
from forgepack.emit.graph import entries
from forgepack.emit.inputs import LICENCE_FILES, Identity
from forgepack.profile import Profile

ASSET_SCHEMA = "forgepack.asset/1"
SOURCE_SCHEMA = "forgepack.dflash2_source/1"
SOURCE_FILE = "DFLASH2_SOURCE.json"
MINIMUM_OS = "v27"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageContent:
    """What emission made: the table, the stored constants, the program, and each file's description by its path."""

    table: Mapping[str, ConstantSpec]
    stored: Mapping[str, StoredConstant]
    trace_sha256: str
    files: Mapping[str, Mapping[str, Any]]
    asset_bytes: int


def asset_metadata(
    profile: Profile,
    identity: Identity,
    created: int = FIXED_DATE,
    *,
    narrowed: Mapping[str, Narrowing] | None = None,
) -> AssetMetadata:
    """Return the asset's metadata: a package that lost its sidecar still says what it belongs to."""
    checkpoint, target, quantization = identity.checkpoint, identity.target, identity.quantization
    licences = sorted({profile.licence, profile.target.licence})
    return AssetMetadata(
        author=f"{checkpoint['repo']} (drafter), {profile.target.name} (head and mask row); packed by forgepack",
        licence=" AND ".join(licences),
        description=(
            f"DFlash2 drafter of {checkpoint['repo']} at {checkpoint['commit']}, {quantization['variant']}, "
            f"with the head of target export {target['export']}"
        ),
        custom={"forgepack": without_nulls(_binding_in_brief(profile, identity, narrowed or {}))},
        created=created,
    )


def _binding_in_brief(profile: Profile, identity: Identity, narrowed: Mapping[str, Narrowing]) -> dict[str, Any]:
    """Return what the asset says of the pair: the sidecar's digest, and what identifies target and sources."""
    target, quantization = identity.target, identity.quantization
    head = target["head"]
    return {
        "schema": ASSET_SCHEMA,
        "sidecar_sha256": identity_digest(_without_asset(profile, identity, narrowed)),
        "profile": {"name": profile.name, "sha256": profile.digest},
        "checkpoint": identity.checkpoint,
        "target": {
            "export": target["export"],
            "head_sha256": head["sha256"],
            "head_content_sha256": head["content_sha256"],
            "embedding_sha256": target["embedding"]["sha256"],
            **{key: target[key] for key in ("mask_row", "tokenizer", "taps", "basis")},
        },
        "quantization": {
            key: quantization[key] for key in ("variant", "mask_scale", "drafter_quant_sha256", "report_sha256")
        },
    }


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the keys that hold null: Core AI's reader refuses null in an asset's metadata."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def runtime_keys(profile: Profile, identity: Identity) -> dict[str, Any]:
    """Return the keys that the runtime and older checks read, ``mb`` apart: the same names and types for ever."""
    geometry, recipe = profile.geometry, profile.recipe
    export = identity.target["export"]
    return {
        "W": geometry.window,
        "T": geometry.block,
        "R": geometry.context_rows,
        "RP": geometry.prefill_rows,
        "resid_scale": recipe.resid_scale,
        "lut_f": {"down": recipe.lut_fold_down, "default": recipe.lut_fold_default},
        "feat_scale": recipe.feat_scale,
        "export": f"drafter_{identity.quantization['variant']}",
        "target_export": export,
        "head_export": f"{export}/{identity.target['head']['file']}",
        "mask_scale": identity.quantization["mask_scale"]["deployment"],
        "entries": entries(geometry),
    }


def sidecar(profile: Profile, identity: Identity, content: PackageContent) -> dict[str, Any]:
    """Return the whole sidecar."""
    whole = _without_package(profile, identity)
    whole["mb"] = round(content.asset_bytes / 1e6)
    whole["forgepack"] |= {
        "package": {
            "asset": f"{profile.package}.aimodel",
            "minimum_os": MINIMUM_OS,
            "files": dict(content.files),
            "trace_sha256": content.trace_sha256,
            "constants": constant_records(content.table, content.stored),
            "narrowed": narrowed_counts(narrowings(content.stored)),
        },
    }
    return whole


def narrowed_counts(narrowed: Mapping[str, Narrowing]) -> dict[str, Any]:
    """Return by role how many values float16 could not hold exactly, and how many became 0."""
    return {role: {"changed": lost.changed, "zeroed": lost.zeroed} for role, lost in narrowed.items()}


def _without_asset(profile: Profile, identity: Identity, narrowed: Mapping[str, Narrowing]) -> dict[str, Any]:
    whole = _without_package(profile, identity)
    whole["forgepack"]["package"] = {"narrowed": narrowed_counts(narrowed)}
    return whole


def _without_package(profile: Profile, identity: Identity) -> dict[str, Any]:
    """Return the part of the sidecar that does not depend on the asset."""
    runtime = profile.runtime
    bound = {
        "schema": KIND.schema,
        "tool": {"name": "forgepack", "version": __version__, DISTRIBUTION: PINNED_VERSION},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "checkpoint": identity.checkpoint,
        "target": identity.target,
        "quantization": identity.quantization,
        "runtime": {
            "compile_mode": runtime.compile_mode,
            "draft_gap_ms": runtime.draft_gap_ms,
            "host_threads": runtime.host_threads,
        },
    }
    return {**runtime_keys(profile, identity), "forgepack": bound}


def identity_digest(sidecar: Mapping[str, Any]) -> str:
    """Return the digest of a sidecar without what depends on the asset: ``mb`` and most of ``forgepack.package``.

    Of the latter ``narrowed`` stays: it follows from the sources alone, and the asset's content can't prove it.
    The asset's metadata carries it, so that no other field of the sidecar can change without a trace.
    """
    bound = sidecar.get("forgepack")
    kept = {key: value for key, value in sidecar.items() if key != "mb"}
    if isinstance(bound, Mapping):
        package = bound.get("package")
        narrowed = package.get("narrowed") if isinstance(package, Mapping) else None
        kept["forgepack"] = {**bound, "package": {"narrowed": narrowed}}
    return digest_json(kept)


def constant_records(table: Mapping[str, ConstantSpec], stored: Mapping[str, StoredConstant]) -> dict[str, Any]:
    """Return every constant of the package by role: type, shape, digest, formula."""
    return {
        role: {
            "dtype": constant.dtype,
            "shape": list(constant.shape),
            "sha256": constant.sha256,
            "formula": table[role].formula,
        }
        for role, constant in stored.items()
    }


def source_record(profile: Profile, identity: Identity, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return DFLASH2_SOURCE.json: where the drafter comes from, in a schema of this tool's own that says so."""
    return {
        "schema": SOURCE_SCHEMA,
        "about": (
            "Written by forgepack after its own schema, dflash2_source.schema.json; "
            "not the format of any other tool's DFLASH2_SOURCE.json."
        ),
        "checkpoint": {**identity.checkpoint, "files": dict(files)},
        "licence": {"drafter": profile.licence, "target": profile.target.licence, "files": list(LICENCE_FILES)},
        "quantization": {
            "variant": identity.quantization["variant"],
            "mask_scale": identity.quantization["mask_scale"],
            "recipe_sha256": digest_json(identity.quantization["recipe"]),
            "drafter_quant_sha256": identity.quantization["drafter_quant_sha256"],
        },
        "target": {"export": identity.target["export"], "head_sha256": identity.target["head"]["sha256"]},
    }
