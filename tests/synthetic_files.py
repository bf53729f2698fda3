"""The synthetic pair written to disk: a locked checkpoint folder, a target's release root, bound traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LockedFile, make_lock, write_lock
from forgepack.artifacts.target import Target, locate_target, read_target
from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.geometry import Geometry
from forgepack.profile import Profile
from forgepack.quantize.sources import Sources
from tests.synthetic import (
    COMMIT,
    GEOMETRY,
    Tensors,
    make_embedding,
    make_head,
    make_weights,
    record,
    write_tensors,
    write_traces,
)

EXPORT = "synthetic_lut4"
LENGTHS = ((40, 5), (36, 9), (30, 6))


def config_json(g: Geometry) -> dict[str, Any]:
    return {
        "architectures": ["DFlash2DraftModel"],
        "dflash_config": {
            "block_size": g.block,
            "conv_group_size": g.conv_group,
            "conv_kernel_size": g.conv_kernel,
            "mask_token_id": g.mask_token,
            "selector_rank": g.selector_rank,
            "selector_top_k": g.selector_top_k,
            "target_layer_ids": list(g.taps),
        },
        "hidden_size": g.hidden,
        "vocab_size": g.vocab,
        "num_hidden_layers": g.layers,
        "num_attention_heads": g.heads,
        "num_key_value_heads": g.kv_heads,
        "head_dim": g.head_dim,
        "intermediate_size": g.intermediate,
        "num_target_layers": g.target_layers,
        "layer_types": ["sliding_attention"] * g.layers,
        "sliding_window": g.window,
        "use_sliding_window": True,
        "rms_norm_eps": g.rms_eps,
        "rope_parameters": {"rope_theta": g.rope_theta, "rope_type": "default"},
    }


def write_checkpoint(root: Path, weights: Tensors, geometry: Geometry = GEOMETRY) -> Path:
    """Write config, weights, licence files and the lock of a checkpoint folder."""
    root.mkdir(parents=True)
    (root / "config.json").write_text(json.dumps(config_json(geometry)))
    write_tensors(root / "model.safetensors", weights)
    for name in ("LICENSE", "NOTICE"):
        (root / name).write_text(f"{name} of a synthetic drafter\n")
    files = []
    for path in sorted(root.iterdir()):
        size, digest = hash_file(path)
        files.append(LockedFile(path=path.name, bytes=size, sha256=digest))
    write_lock(root, make_lock(repo="synthetic/drafter", commit=COMMIT, adopted=False, files=files))
    return root


def write_target(root: Path, geometry: Geometry = GEOMETRY) -> Path:
    """Write the parts of a release root that quantization and replay read."""
    model, export = root / "model", root / "export" / EXPORT
    for folder in (model, export, root / "coreai"):
        folder.mkdir(parents=True)
    text = {
        "hidden_size": geometry.hidden,
        "vocab_size": geometry.vocab,
        "num_hidden_layers": geometry.target_layers,
    }
    (model / "config.json").write_text(json.dumps({"text_config": text}))
    vocab = {f"t{n}": n for n in range(geometry.vocab - 4)}
    (model / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": []}}))
    np.save(model / "embed_tokens_fp16.npy", make_embedding(geometry))
    write_tensors(export / "lm_head.safetensors", make_head(geometry))
    manifest = {
        "export": EXPORT,
        "T": geometry.block,
        "taps": list(geometry.taps),
        "ctxs": [64],
        "head": {"file": "head.aimodel"},
        "chunks": [{"file": "chunk.aimodel", "layers": [0, geometry.target_layers - 1], "entries": ["v4_1k"]}],
    }
    (root / "coreai" / "manifest.json").write_text(json.dumps(manifest))
    return root


def identity_json(checkpoint: Path, target: Path, **changes: Any) -> dict[str, Any]:
    """Return the identity that traces of this checkpoint and target carry."""
    identity: dict[str, Any] = {
        "schema": "forgepack.traces/1",
        "split": "calibration",
        "generator": "tests",
        "mask_scale": 0.7,
        "taps": list(GEOMETRY.taps),
        "tap_convention": "layer_output_zero_based",
        "drafter": {"model_sha256": hash_file(checkpoint / "model.safetensors")[1]},
        "target": {
            "export": EXPORT,
            "lm_head_sha256": hash_file(target / "export" / EXPORT / "lm_head.safetensors")[1],
            "tokenizer_sha256": hash_file(target / "model" / "tokenizer.json")[1],
            "embedding_sha256": hash_file(target / "model" / "embed_tokens_fp16.npy")[1],
        },
    }
    return identity | changes


def write_pair(root: Path) -> Path:
    """Write checkpoint, target, bound traces, unbound traces and the profile below ``root``."""
    weights = make_weights()
    checkpoint, target = write_checkpoint(root / "checkpoint", weights), write_target(root / "target")
    sequences = [record(weights, length=n, plen=p, seed=s) for s, (n, p) in enumerate(LENGTHS)]
    held_out = [record(weights, length=34, plen=7, seed=20)]
    write_traces(root / "bound.npz", sequences, identity_json(checkpoint, target))
    write_traces(root / "unbound.npz", sequences)
    write_traces(root / "held-out.npz", held_out, identity_json(checkpoint, target, split="held-out"))
    return root


def open_target(root: Path) -> Target:
    return read_target(locate_target(root / "target"))


def open_sources(root: Path, profile: Profile, traces: str = "bound.npz", held_out: str | None = None) -> Sources:
    """Read the pair's inputs as ``quantize`` takes them."""
    second: TraceSet | None = None if held_out is None else read_traces(root / held_out, profile.geometry)
    return Sources(
        checkpoint=read_checkpoint(root / "checkpoint", profile),
        target=open_target(root),
        traces=read_traces(root / traces, profile.geometry),
        held_out=second,
    )
