"""Writes a whole synthetic pair to disk: checkpoint with lock, target release root, quantized drafter with report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.export import layer_files
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LockedFile, make_lock, read_lock, write_lock
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import REPORT_FILE
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.artifacts.target import locate_target
from forgepack.canonical import dump_canonical
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import HeadWeights, author_chunk_standin, author_head_package
from forgepack.emit.inputs import EmitInputs
from forgepack.profile import Profile, parse_profile
from forgepack.quantize.recipe import Options, recipe_json
from forgepack.verify.emission import InputPaths, open_inputs
from tests.emit.synthetic import Array, Weights, make_weights, rng
from tests.quant_reports import RESULT, both_traces, target_of
from tests.verify.factory import write_layer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
EXPORT = "mix25_synthetic"
REPO = "synthetic/drafter"
DTYPES = {"bfloat16": "BF16", "float16": "F16", "uint8": "U8", "int8": "I8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Folders of a synthetic pair, and the weights that they hold."""

    root: Path
    profile: Profile
    weights: Weights

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def target(self) -> Path:
        return self.root / "target"

    @property
    def quant(self) -> Path:
        return self.root / "quant"

    def read(self) -> EmitInputs:
        """Read the pair as the command does."""
        target = locate_target(self.target)
        paths = InputPaths(quant=self.quant, checkpoint=self.checkpoint, target=target, root=self.target)
        return open_inputs(paths, self.root / "drafter", self.profile)[0]


def profile_json(geometry: dict[str, Any], **changes: Any) -> dict[str, Any]:
    text = (resources.files("forgepack") / "profiles" / "qwen3.8-27b-dflash2.json").read_text()
    raw: dict[str, Any] = json.loads(text)
    raw["name"], raw["geometry"], raw["known_bad"] = "synthetic", geometry, {}
    raw["hub"] |= {"repo": REPO, "commit": COMMIT}
    raw["target"] |= {"name": "Synthetic", "tokenizer_sha256": None, "used_tokens": 8, "licence": "MIT"}
    raw["target"]["eos_tokens"] = [0]
    return raw | changes


def write_pair(root: Path, geometry: dict[str, Any], *, seed: int = 0) -> Pair:
    """Write a pair into the new folder ``root``."""
    profile = parse_profile(profile_json(geometry))
    pair = Pair(root=root, profile=profile, weights=make_weights(geometry, seed=seed))
    root.mkdir(parents=True)
    _write_checkpoint(pair)
    _write_target(pair)
    write_quant(pair)
    return pair


def write_tensors(path: Path, tensors: dict[str, Array]) -> None:
    specs = {name: (DTYPES[str(array.dtype)], array.shape) for name, array in tensors.items()}
    with SafetensorsWriter(path, specs, {}) as writer:
        for name, array in tensors.items():
            writer.write(name, array)


def drafter_config(profile: Profile) -> dict[str, Any]:
    g = profile.geometry
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
        "head_dim": g.head_dim,
        "hidden_size": g.hidden,
        "intermediate_size": g.intermediate,
        "num_attention_heads": g.heads,
        "num_hidden_layers": g.layers,
        "num_key_value_heads": g.kv_heads,
        "num_target_layers": g.target_layers,
        "rms_norm_eps": g.rms_eps,
        "rope_parameters": {"rope_theta": g.rope_theta, "rope_type": "default"},
        "layer_types": ["sliding_attention"] * g.layers,
        "sliding_window": g.window,
        "use_sliding_window": True,
        "vocab_size": g.vocab,
    }


def _write_checkpoint(pair: Pair) -> None:
    root = pair.checkpoint
    root.mkdir()
    (root / "config.json").write_text(json.dumps(drafter_config(pair.profile), indent=1))
    (root / "LICENSE").write_bytes(b"Apache License\nVersion 2.0\n")
    (root / "NOTICE").write_bytes(b"Notice of the drafter\n")
    write_tensors(root / "model.safetensors", pair.weights.group("checkpoint"))
    lock_checkpoint(root)


def lock_checkpoint(root: Path, repo: str = REPO, commit: str = COMMIT) -> None:
    """Write the lock over what lies in the folder now."""
    names = ("LICENSE", "NOTICE", "config.json", "model.safetensors")
    files = [LockedFile(path=n, bytes=size, sha256=digest) for n in names for size, digest in [hash_file(root / n)]]
    write_lock(root, make_lock(repo=repo, commit=commit, adopted=True, files=files))


def _write_target(pair: Pair) -> None:
    g, root = pair.profile.geometry, pair.target
    model, build, export = root / "model", root / "coreai", root / "export" / EXPORT
    for folder in (model, build, export):
        folder.mkdir(parents=True)
    inner = {"hidden_size": g.hidden, "vocab_size": g.vocab, "num_hidden_layers": g.target_layers, "eos_token_id": 0}
    (model / "config.json").write_text(json.dumps({"model_type": "synthetic", "text_config": inner}))
    tokens = {"model": {"type": "BPE", "vocab": {f"t{n}": n for n in range(8)}, "merges": []}, "added_tokens": []}
    (model / "tokenizer.json").write_text(json.dumps(tokens))
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}", "model_max_length": 8}))
    table = (rng("embedding").standard_normal((g.vocab, g.hidden)) * 0.02).astype(np.float16)
    table[g.mask_token] = pair.weights("target:embedding[mask]")
    np.save(model / "embed_tokens_fp16.npy", table)
    write_head(pair)
    for name in layer_files(g.target_layers):
        write_layer(export / name, rng(name))
    (root / "LICENSE").write_bytes(b"MIT License\n\nPermission is hereby granted, free of charge\n")
    metadata = AssetMetadata(author="tests", licence="MIT", description="a stand-in")
    entry = f"v{g.block}_8k"
    author_chunk_standin(
        build / "chunk_all.aimodel", hidden=g.hidden, entries={entry: g.block}, outputs=("y",), metadata=metadata
    )
    manifest = {
        "version": 1,
        "T": g.block,
        "TP": g.prefill_rows,
        "taps": list(g.taps),
        "ctxs": [8192],
        "export": f"exports/{EXPORT}",
        "chunks": [
            {
                "file": "chunk_all.aimodel",
                "layers": [0, g.target_layers - 1],
                "entries": [entry],
                "taps": list(g.taps),
            }
        ],
        "head": {"file": "head_T8.aimodel"},
    }
    (build / "manifest.json").write_text(json.dumps(manifest))


def write_head(pair: Pair, *, package: bool = True) -> None:
    """Write the export's head and, with ``package``, the target's own head package of it."""
    head = {f"lm_head.{n}": pair.weights(f"head:lm_head.{n}") for n in ("lut", "idx", "scale")}
    write_tensors(pair.target / "export" / EXPORT / "lm_head.safetensors", head)
    if not package:
        return
    g = pair.profile.geometry
    weights = HeadWeights(
        idx=head["lm_head.idx"],
        lut=head["lm_head.lut"].reshape(-1),
        scale=head["lm_head.scale"],
        gain=np.ones(g.hidden, np.float32),
        eps=g.rms_eps,
        fold=0.25,
    )
    metadata = AssetMetadata(author="tests", licence="MIT", description="the target's head")
    author_head_package(pair.target / "coreai" / "head_T8.aimodel", weights, parts=3, metadata=metadata)


def write_quant(pair: Pair, **changes: Any) -> None:
    """Write the quantized drafter and a report over the inputs as they lie on disk; ``changes`` edit it by path."""
    root = pair.quant
    root.mkdir(exist_ok=True)
    write_tensors(root / QUANT_FILE, pair.weights.group("quant"))
    size, digest = hash_file(root / QUANT_FILE)
    lock = read_lock(pair.checkpoint)
    files = {file.path: file.sha256 for file in lock.files}
    report: dict[str, Any] = {
        "schema": "forgepack.quant_report/2",
        "tool": {"name": "forgepack", "version": "0"},
        "profile": {"name": pair.profile.name, "sha256": pair.profile.digest},
        "method": "gptq",
        "recipe": recipe_json(Options(), pair.profile),
        "inputs": {
            "checkpoint": {
                "repo": lock.repo,
                "commit": lock.commit,
                "adopted": lock.adopted,
                "lock_sha256": lock.digest,
                "model_sha256": files["model.safetensors"],
                "config_sha256": files["config.json"],
            },
            "target": target_of(pair.target, EXPORT),
            **both_traces("0" * 64, bound=False),
        },
        **RESULT,
        "output": {"file": QUANT_FILE, "bytes": size, "sha256": digest},
    }
    for dotted, value in changes.items():
        node = report
        *path, last = dotted.split("__")
        for key in path:
            node = node[key]
        node[last] = value
    (root / REPORT_FILE).write_bytes(dump_canonical(report))
