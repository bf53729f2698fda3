"""A synthetic checkpoint folder: config.json, LICENSE, NOTICE, BF16 weights with heavy-tailed scales, and its lock.

Matrices are normal values times heavy-tailed row and column scales, with the usual 1/sqrt(inputs), so that the
forward pass stays of order one through all layers.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.noise import Noise, for_spans, outlier_channels
from benchmarks.scales import Scale
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LockedFile, make_lock, write_lock
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import dump_canonical
from forgepack.geometry import Geometry, checkpoint_tensors
from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]

NOTICE = "Synthetic weights, drawn from a seed for benchmarks. They are no model and compute nothing of use.\n"


def write_checkpoint(root: Path, scale: Scale, noise: Noise, pool: Pool) -> None:
    """Write the folder ``root``, its lock last."""
    root.mkdir(parents=True, exist_ok=True)
    g, hub = scale.profile.geometry, scale.profile.hub
    (root / "config.json").write_bytes(dump_canonical(drafter_config(g, scale.profile.target.eos_tokens[0])))
    write_licence(root)
    (root / "NOTICE").write_text(NOTICE, encoding="utf-8", newline="\n")
    specs: dict[str, tuple[str, tuple[int, ...]]] = {n: ("BF16", s) for n, s in checkpoint_tensors(g).items()}
    with SafetensorsWriter(root / "model.safetensors", specs, {}) as writer:
        for name, (_, shape) in specs.items():
            if len(shape) == 2:
                factors = _factors(name, shape[1], g, noise)
                _write_matrix(name, writer.view(name), factors, noise, pool)
            else:
                writer.write(name, _small(name, shape, noise).astype(ml_dtypes.bfloat16))
    files = []
    for name in hub.files:
        size, digest = hash_file(root / name)
        files.append(LockedFile(path=name, bytes=size, sha256=digest))
    write_lock(root, make_lock(repo=hub.repo, commit=hub.commit, adopted=True, files=files))


def write_licence(root: Path) -> None:
    """Copy the tool's own licence, Apache-2.0, into ``root``."""
    shutil.copyfile(Path(__file__).parents[1] / "LICENSE", root / "LICENSE")


def _write_matrix(name: str, view: npt.NDArray[Any], factors: F32, noise: Noise, pool: Pool) -> None:
    rows = noise.scales(f"{name}/rows", view.shape[0], spread=0.35, outliers=0.01, factor=3.0)
    columns = factors * noise.scales(f"{name}/columns", view.shape[1], spread=0.45, outliers=0.005, factor=5.0)

    def task(number: int, span: slice) -> None:
        part = noise.generator(name, number).standard_normal(view[span].shape, np.float32)
        part *= columns
        part *= rows[span, None]
        view[span] = part.astype(ml_dtypes.bfloat16)

    for_spans((view.shape[0], view.shape[1]), pool, task)


def _factors(name: str, inputs: int, g: Geometry, noise: Noise) -> F32:
    """Return what each column is multiplied by: 1/sqrt(inputs), and less where ``fc`` meets an outlier channel.

    A trained ``fc`` takes little from those: else they alone would decide its output.
    """
    gain = np.full(inputs, gain_of(name) / np.sqrt(inputs), np.float32)
    if name == "fc.weight":
        gain /= np.sqrt(np.tile(1 + np.abs(outlier_channels(g.hidden, noise)), len(g.taps)))
    return gain


def gain_of(name: str) -> float:
    """Return what a matrix's values are multiplied by beyond 1/sqrt(inputs)."""
    if name.endswith("down_proj.weight"):
        return 0.5
    return 0.1 if "kernel_projection" in name else 1.0


def _small(name: str, shape: tuple[int, ...], noise: Noise) -> F32:
    """Return a norm's gain, or a convolution's base kernel: tap 0 about one, tap 1 about a third.

    Query and key gains are about two: attention is then peaked, and the rows of a block do not all become alike.
    """
    values = noise.normal(name, shape) * np.float32(0.1)
    if name.endswith("base_kernel"):
        values += np.array([1.0, 0.3], np.float32)[:, None]
        return values
    peak = 2 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1
    gains: F32 = np.exp(values * 2) * np.float32(peak)
    return gains


def drafter_config(g: Geometry, end_token: int) -> dict[str, Any]:
    """Return the config.json of a drafter of this geometry, with the keys of the release's (contract 1.1)."""
    return {
        "architectures": ["DFlash2DraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
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
        "eos_token_id": end_token,
        "head_dim": g.head_dim,
        "hidden_act": "silu",
        "hidden_size": g.hidden,
        "initializer_range": 0.02,
        "intermediate_size": g.intermediate,
        "is_causal": False,
        "layer_types": ["sliding_attention"] * g.layers,
        "max_position_embeddings": 262144,
        "max_window_layers": g.layers,
        "model_type": "qwen3",
        "num_attention_heads": g.heads,
        "num_hidden_layers": g.layers,
        "num_key_value_heads": g.kv_heads,
        "num_target_layers": g.target_layers,
        "pad_token_id": end_token,
        "rms_norm_eps": g.rms_eps,
        "rope_parameters": {"rope_theta": int(g.rope_theta), "rope_type": "default"},
        "sliding_window": g.window,
        "tie_word_embeddings": False,
        "transformers_version": "5.15.0",
        "use_cache": True,
        "use_sliding_window": True,
        "vocab_size": g.vocab,
    }
