"""A tiny pair in the real layout, made from a seed: checkpoint, quantized drafter, target.

Values are random, so nothing here drafts well; every file has the true form, names, types and shapes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from forgepack.artifacts.export import layer_files
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LockedFile, make_lock, read_lock, write_lock
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import dump_canonical
from forgepack.geometry import Geometry, checkpoint_tensors, codebook_tensors, quant_tensors
from forgepack.profile import Profile, parse_profile
from forgepack.quantize.recipe import Options, recipe_json
from tests.quant_reports import RESULT, both_traces, target_of
from tests.rounded import round_plainly

EXPORT = "tiny_lr64mix"
APACHE = "Apache License\nVersion 2.0, January 2004\n(the test's stand-in for the whole text)\n"
NOTICE = "Tiny drafter, made for tests.\n"

PROFILE: dict[str, Any] = {
    "schema": "forgepack.profile/1",
    "name": "tiny",
    "package": "dflash2_lut4_gptq",
    "licence": "Apache-2.0",
    "hub": {
        "repo": "tests/tiny",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "files": ["LICENSE", "NOTICE", "config.json", "model.safetensors"],
        "optional_files": ["README.md"],
    },
    "geometry": {
        "hidden": 32,
        "vocab": 48,
        "layers": 2,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 16,
        "intermediate": 64,
        "taps": [1, 3, 6],
        "target_layers": 8,
        "window": 16,
        "block": 8,
        "context_rows": 8,
        "prefill_rows": 64,
        "selector_rank": 4,
        "selector_top_k": 4,
        "conv_group": 8,
        "conv_kernel": 2,
        "mask_token": 42,
        "rope_theta": 10000.0,
        "rms_eps": 1e-06,
        "head_parts": 8,
    },
    "recipe": {
        "variant": "lut4_gptq",
        "mask_scale": 0.7,
        "damping": 0.01,
        "gptq_block": 16,
        "lloyd_iterations": 40,
        "lloyd_samples": 65536,
        "resid_scale": 256.0,
        "lut_fold_down": 0.015625,
        "lut_fold_default": 0.0625,
        "feat_scale": 0.125,
    },
    "runtime": {"compile_mode": 2, "draft_gap_ms": 3, "host_threads": 1},
    "target": {
        "name": "Tiny",
        "tokenizer_sha256": None,
        "used_tokens": 44,
        "mask_token_text": "<|mask|>",
        "eos_tokens": [40, 41],
        "licence": "Apache-2.0",
    },
    "known_bad": {},
    "withdrawn": {},
}


def tiny_profile(**changes: Any) -> Profile:
    """Return the tests' profile, with top-level keys replaced."""
    return parse_profile({**PROFILE, **changes})


def drafter_config(g: Geometry) -> dict[str, Any]:
    """Return a drafter's config.json of geometry ``g``."""
    return {
        "architectures": ["DFlash2DraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "is_causal": False,
        "dflash_config": {
            "block_size": g.block,
            "conv_group_size": g.conv_group,
            "conv_kernel_size": g.conv_kernel,
            "mask_token_id": g.mask_token,
            "selector_rank": g.selector_rank,
            "selector_top_k": g.selector_top_k,
            "target_layer_ids": list(g.taps),
        },
        "dtype": "bfloat16",
        "eos_token_id": 40,
        "head_dim": g.head_dim,
        "hidden_act": "silu",
        "hidden_size": g.hidden,
        "intermediate_size": g.intermediate,
        "layer_types": ["sliding_attention"] * g.layers,
        "model_type": "qwen3",
        "num_attention_heads": g.heads,
        "num_hidden_layers": g.layers,
        "num_key_value_heads": g.kv_heads,
        "num_target_layers": g.target_layers,
        "rms_norm_eps": g.rms_eps,
        "rope_parameters": {"rope_theta": g.rope_theta, "rope_type": "default"},
        "sliding_window": g.window,
        "tie_word_embeddings": False,
        "use_sliding_window": True,
        "vocab_size": g.vocab,
    }


def write_json(path: Path, value: Any) -> None:
    """Write canonical JSON."""
    path.write_bytes(dump_canonical(value))


def write_checkpoint(root: Path, profile: Profile, seed: int = 1) -> Path:
    """Write a checkpoint folder with random BF16 weights, licence and notice, and its lock."""
    g, rng = profile.geometry, np.random.default_rng(seed)
    root.mkdir(parents=True)
    write_json(root / "config.json", drafter_config(g))
    (root / "LICENSE").write_text(APACHE)
    (root / "NOTICE").write_text(NOTICE)
    shapes = checkpoint_tensors(g)
    with SafetensorsWriter(root / "model.safetensors", {n: ("BF16", s) for n, s in shapes.items()}, {}) as out:
        for name, shape in shapes.items():
            values = rng.normal(1.0 if "norm" in name else 0.0, 0.1, shape)
            out.write(name, values.astype(ml_dtypes.bfloat16))
    lock_checkpoint(root, profile)
    return root


def lock_checkpoint(root: Path, profile: Profile, **changes: Any) -> None:
    """Write the lock of a checkpoint folder as it is."""
    hashed = {name: hash_file(root / name) for name in profile.hub.files}
    files = [LockedFile(path=name, bytes=size, sha256=sha256) for name, (size, sha256) in hashed.items()]
    values: dict[str, Any] = {"repo": profile.hub.repo, "commit": profile.hub.commit, "adopted": False} | changes
    write_lock(root, make_lock(files=files, **values))


def write_quant(root: Path, profile: Profile, checkpoint: Path) -> Path:
    """Write the quantized drafter of a checkpoint, rounded plainly."""
    from forgepack.artifacts.safetensors_file import read_safetensors

    source = read_safetensors(checkpoint / "model.safetensors")
    tensors = round_plainly(profile.geometry, source.array)
    root.mkdir(parents=True)
    specs = quant_tensors(profile.geometry)
    with SafetensorsWriter(root / "drafter_quant.safetensors", specs, {"variant": "lut4_gptq"}) as out:
        for name in specs:
            out.write(name, tensors[name])
    return root


def report_quant(root: Path, checkpoint: Path, target: Path, profile: Profile) -> None:
    """Write report.json of a quantized drafter over the tensors as they are."""
    size, sha256 = hash_file(root / "drafter_quant.safetensors")
    lock = read_lock(checkpoint)
    digests = {file.path: file.sha256 for file in lock.files}
    report = {
        "schema": "forgepack.quant_report/2",
        "tool": {"name": "forgepack", "version": "0"},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "method": "gptq",
        "recipe": recipe_json(Options(), profile),
        "inputs": {
            "checkpoint": {
                "repo": lock.repo,
                "commit": lock.commit,
                "adopted": lock.adopted,
                "lock_sha256": lock.digest,
                "model_sha256": digests["model.safetensors"],
                "config_sha256": digests["config.json"],
            },
            "target": target_of(target, EXPORT),
            **both_traces("ab" * 32, bound=True),
        },
        **RESULT,
        "output": {"file": "drafter_quant.safetensors", "bytes": size, "sha256": sha256},
    }
    write_json(root / "report.json", report)


def write_selector(path: Path, checkpoint: Path, profile: Profile) -> None:
    """Write selector.safetensors: the checkpoint's two codebooks."""
    from forgepack.artifacts.safetensors_file import read_safetensors

    source = read_safetensors(checkpoint / "model.safetensors")
    shapes = codebook_tensors(profile.geometry)
    with SafetensorsWriter(path, {n: ("BF16", s) for n, s in shapes.items()}, {}) as out:
        for name in shapes:
            out.write(name, source.array(name))


def tokenizer_json(profile: Profile) -> dict[str, Any]:
    """Return a tokenizer of single letters with the profile's number of ids and its mask token."""
    used, mask = profile.target.used_tokens, profile.geometry.mask_token
    vocab = {chr(0x61 + n) if n < 26 else chr(0x41 + n - 26): n for n in range(min(profile.target.eos_tokens))}
    special = {n: f"<|s{n}|>" for n in range(len(vocab), used)} | {mask: profile.target.mask_token_text}
    added = [{"id": n, "content": text, "special": True} for n, text in sorted(special.items())]
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return {"version": "1.0", "added_tokens": added, "model": model, "normalizer": None, "pre_tokenizer": None}


def write_target(root: Path, profile: Profile, seed: int = 3) -> Path:
    """Write a target's release root; its packages are real assets where Core AI is there."""
    from tests.verify.target_packages import write_packages

    g, rng = profile.geometry, np.random.default_rng(seed)
    model, export = root / "model", root / "export" / EXPORT
    for folder in (model, export, root / "coreai"):
        folder.mkdir(parents=True)
    (root / "LICENSE").write_text(APACHE)
    text = {"hidden_size": g.hidden, "num_hidden_layers": g.target_layers, "vocab_size": g.vocab, "eos_token_id": 40}
    write_json(model / "config.json", {"model_type": "tiny_vl", "architectures": ["Tiny"], "text_config": text})
    write_json(model / "tokenizer.json", tokenizer_json(profile))
    write_json(model / "tokenizer_config.json", {"chat_template": "{{ messages }}", "model_max_length": 1024})
    np.save(model / "embed_tokens_fp16.npy", rng.normal(0, 1, (g.vocab, g.hidden)).astype(np.float16))
    write_head(export / "lm_head.safetensors", g, rng)
    for name in layer_files(g.target_layers):
        write_layer(export / name, rng)
    write_packages(root, profile)
    return root


def write_head(path: Path, g: Geometry, rng: np.random.Generator) -> None:
    """Write a LUT4 lm_head.safetensors."""
    specs = {
        "lm_head.idx": ("U8", (g.vocab, g.hidden)),
        "lm_head.lut": ("F16", (16, 1)),
        "lm_head.scale": ("F16", (g.vocab,)),
    }
    with SafetensorsWriter(path, specs, {"format": "LUT4 per-tensor + pcs"}) as out:
        out.write("lm_head.idx", rng.integers(0, 16, (g.vocab, g.hidden)).astype(np.uint8))
        out.write("lm_head.lut", np.sort(rng.normal(0, 1, (16, 1)), axis=0).astype(np.float16))
        out.write("lm_head.scale", rng.uniform(0.05, 0.2, g.vocab).astype(np.float16))


def write_layer(path: Path, rng: np.random.Generator) -> None:
    """Write a stand-in of one of a layer's files: the gain of a norm."""
    with SafetensorsWriter(path, {"input_layernorm": ("F16", (16,))}, {}) as out:
        out.write("input_layernorm", rng.normal(1, 0.1, 16).astype(np.float16))


def edit_json(path: Path, **changes: Any) -> None:
    """Replace top-level keys of a JSON file; None removes a key."""
    raw = json.loads(path.read_bytes())
    for key, value in changes.items():
        raw.pop(key, None)
        if value is not None:
            raw[key] = value
    write_json(path, raw)
