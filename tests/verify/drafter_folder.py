"""The tiny pair's drafter folder as other scripts would leave it: a real asset, a sidecar that binds nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import read_embedding
from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.builder import build_program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.emit.graph import drafter_functions, entries
from forgepack.emit.table import constant_table
from forgepack.profile import Profile
from tests.verify.factory import EXPORT, write_json, write_selector


def write_drafter(root: Path, parts: Path, profile: Profile) -> Path:
    """Write the drafter folder from ``parts``/checkpoint, quant and target."""
    g, checkpoint = profile.geometry, parts / "checkpoint"
    root.mkdir()
    for name in ("config.json", "LICENSE", "NOTICE"):
        shutil.copy(checkpoint / name, root / name)
    write_selector(root / "selector.safetensors", checkpoint, profile)
    write_json(root / "DFLASH2_SOURCE.json", {"repo": profile.hub.repo})
    write_drafter_asset(root / f"{profile.package}.aimodel", parts, profile)
    sidecar = {
        "W": g.window,
        "T": g.block,
        "R": g.context_rows,
        "RP": g.prefill_rows,
        "resid_scale": 256.0,
        "lut_f": {"down": 0.015625, "default": 0.0625},
        "feat_scale": 0.125,
        "export": "drafter_lut4_gptq",
        "target_export": EXPORT,
        "head_export": f"{EXPORT}/lm_head.safetensors",
        "mask_scale": 0.7,
        "mb": 0,
        "entries": entries(g),
    }
    write_json(root / f"{profile.package}.json", sidecar)
    return root


def write_drafter_asset(folder: Path, parts: Path, profile: Profile) -> None:
    """Write the drafter's asset from the constant table."""
    table = constant_table(profile.geometry, profile.recipe)
    sources = source_lookup(parts, profile)

    def constant(role: str) -> NamedConstant:
        spec = table[role]
        return NamedConstant(name=role, dtype=spec.dtype, shape=spec.shape, data=spec.evaluate(sources))

    program = build_program(drafter_functions(profile.geometry, profile.recipe), constant)
    metadata = AssetMetadata(author="tests", licence="Apache-2.0", description="a tiny drafter of the tests")
    write_asset(program, folder, metadata)


def source_lookup(parts: Path, profile: Profile) -> Any:
    """Return the lookup of source arrays that the constant table reads."""
    files = {
        "quant": read_safetensors(parts / "quant/drafter_quant.safetensors"),
        "checkpoint": read_safetensors(parts / "checkpoint/model.safetensors"),
        "head": read_safetensors(parts / "target/export" / EXPORT / "lm_head.safetensors"),
    }
    embedding = read_embedding(parts / "target/model/embed_tokens_fp16.npy")

    def lookup(name: str) -> Any:
        if name == "target:embedding[mask]":
            return embedding.row(profile.geometry.mask_token)
        if name == "recipe:mask_scale":
            return profile.recipe.mask_scale
        kind, _, tensor = name.partition(":")
        return files[kind].array(tensor)

    return lookup
