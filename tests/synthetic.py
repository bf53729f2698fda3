"""A tiny synthetic pair: geometry, profile, weights, target and traces, deterministic from a seed.

Its numbers differ from each other wherever they could be mixed up. Tests that need trained weights use the miniature.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.geometry import Geometry, checkpoint_tensors
from forgepack.profile import Profile, parse_profile
from tests.drafter.plain import PlainDrafter

F32 = npt.NDArray[np.float32]
Tensors = dict[str, npt.NDArray[Any]]

GEOMETRY = Geometry(
    hidden=32,
    vocab=48,
    layers=2,
    heads=6,
    kv_heads=2,
    head_dim=8,
    intermediate=40,
    taps=(0, 2, 3),
    target_layers=5,
    window=12,
    block=4,
    context_rows=4,
    prefill_rows=8,
    selector_rank=6,
    selector_top_k=5,
    conv_group=4,
    conv_kernel=2,
    mask_token=47,
    rope_theta=100.0,
    rms_eps=1e-6,
    head_parts=3,
)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def make_profile(geometry: Geometry = GEOMETRY, **recipe: Any) -> Profile:
    """Return the release profile with another name, repository and geometry."""
    return parse_profile(profile_json(geometry, **recipe))


def profile_json(geometry: Geometry = GEOMETRY, **recipe: Any) -> dict[str, Any]:
    path = resources.files("forgepack") / "profiles" / "qwen3.8-27b-dflash2.json"
    raw: dict[str, Any] = json.loads(path.read_text())
    values = {name: getattr(geometry, name) for name in raw["geometry"]} | {"taps": list(geometry.taps)}
    raw |= {"name": "synthetic", "geometry": values, "known_bad": {}}
    raw["recipe"] |= recipe
    raw["hub"] |= {"repo": "synthetic/drafter", "commit": COMMIT}
    raw["target"] |= {"tokenizer_sha256": None, "used_tokens": geometry.vocab - 4}
    return raw


def make_weights(geometry: Geometry = GEOMETRY, seed: int = 0) -> Tensors:
    """BF16 tensors of a checkpoint with heavy-tailed rows and norms near 1."""
    rng = np.random.default_rng(seed)
    out: Tensors = {}
    for name, shape in checkpoint_tensors(geometry).items():
        values = rng.standard_normal(shape)
        if len(shape) == 1:
            values = 1 + 0.2 * values
        elif name.endswith("base_kernel"):
            values = np.array([1.0, 0.2])[None, :, None] + 0.1 * values
        elif name.endswith("kernel_projection.weight"):
            values *= 0.02
        else:
            values *= np.exp(0.3 * rng.standard_normal((shape[0], 1))) / np.sqrt(shape[-1])
        out[name] = values.astype(ml_dtypes.bfloat16)
    return out


def make_embedding(geometry: Geometry = GEOMETRY, seed: int = 1) -> npt.NDArray[np.float16]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((geometry.vocab, geometry.hidden)).astype(np.float16)


def make_head(geometry: Geometry = GEOMETRY, seed: int = 2) -> Tensors:
    """Return the tensors of lm_head.safetensors."""
    rng = np.random.default_rng(seed)
    return {
        "lm_head.lut": np.sort(rng.standard_normal(16)).astype(np.float16)[:, None],
        "lm_head.idx": rng.integers(0, 16, (geometry.vocab, geometry.hidden), np.uint8),
        "lm_head.scale": rng.uniform(0.1, 0.3, geometry.vocab).astype(np.float16),
    }


def dense_head(head: Tensors) -> F32:
    lut, scale = head["lm_head.lut"].astype(np.float32), head["lm_head.scale"].astype(np.float32)
    dense: F32 = lut[:, 0][head["lm_head.idx"]] * scale[:, None]
    return dense


def plain_drafter(weights: Tensors, geometry: Geometry = GEOMETRY, mask_scale: float = 0.7) -> PlainDrafter:
    return PlainDrafter(
        geometry,
        weights,
        head=dense_head(make_head(geometry)),
        embedding=make_embedding(geometry),
        mask_scale=mask_scale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded sequence."""

    tokens: npt.NDArray[np.int32]
    plen: int
    features: npt.NDArray[np.float16]
    accepted: npt.NDArray[np.int8]


def record(weights: Tensors, *, length: int, plen: int, seed: int, geometry: Geometry = GEOMETRY) -> Recorded:
    """Record a sequence whose tokens follow the plain drafter's drafts for a random number of places a block.

    Features are low-rank plus noise, with a few loud channels, as a model's are.
    """
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((6, geometry.features))
    loud = rng.standard_normal((length - 1, 6)) @ mix + 0.3 * rng.standard_normal((length - 1, geometry.features))
    loud[:, ::17] *= 8
    features = loud.astype(np.float16)
    tokens = rng.integers(0, geometry.vocab - 4, length).astype(np.int32)
    drafter, p, accepted = plain_drafter(weights, geometry), plen, []
    drafter.add_context(features[:plen], 0)
    while p + geometry.block <= length and p <= len(features):
        drafts = drafter.propose(int(tokens[p]), p)
        m = int(rng.integers(0, geometry.block))
        tokens[p + 1 : p + 1 + m] = drafts[:m]
        if m < geometry.block - 1 and tokens[p + 1 + m] == drafts[m]:
            tokens[p + 1 + m] = (drafts[m] + 1) % (geometry.vocab - 4)
        accepted.append(m)
        drafter.add_context(features[p : p + m + 1], p)
        p += m + 1
    shaped = features.reshape(length - 1, len(geometry.taps), geometry.hidden)
    return Recorded(tokens=tokens, plen=plen, features=shaped, accepted=np.array(accepted, np.int8))


def trace_arrays(sequences: list[Recorded]) -> Tensors:
    out: Tensors = {}
    for j, s in enumerate(sequences):
        out |= {
            f"tokens_{j}": s.tokens,
            f"plen_{j}": np.array(s.plen),
            f"feats_{j}": s.features,
            f"m_{j}": s.accepted,
        }
    return out


def write_traces(path: Path, sequences: list[Recorded], identity: dict[str, Any] | None = None) -> Path:
    arrays = trace_arrays(sequences)
    if identity is not None:
        arrays["forgepack_identity"] = np.frombuffer(json.dumps(identity).encode(), np.uint8)
    np.savez(path, allow_pickle=False, **arrays)
    return path


def write_tensors(path: Path, tensors: Tensors) -> Path:
    names = {"bfloat16": "BF16", "float16": "F16", "uint8": "U8", "int8": "I8", "float32": "F32"}
    specs = {name: (names[str(array.dtype)], array.shape) for name, array in tensors.items()}
    with SafetensorsWriter(path, specs, {}) as writer:
        for name, array in tensors.items():
            writer.write(name, array)
    return path


def smaller(**changes: Any) -> Geometry:
    """Return the synthetic geometry with some numbers changed."""
    return replace(GEOMETRY, **changes)
