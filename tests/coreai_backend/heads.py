"""Small synthetic heads: weights, a float32 reference, and the same head as lm_head.safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import HeadWeights

METADATA = AssetMetadata(
    author="tests", licence="MIT", description="a synthetic head", custom={"a": [1, {"b": "c"}], "z": "y"}
)


def make_head(vocab: int = 101, hidden: int = 48, *, seed: int = 1, fold: float = 0.0625) -> HeadWeights:
    r = np.random.default_rng(seed)
    return HeadWeights(
        idx=r.integers(0, 16, (vocab, hidden)).astype(np.uint8),
        lut=r.permutation(np.linspace(-1.9, 2.1, 16)).astype(np.float16),
        scale=r.uniform(0.01, 0.05, vocab).astype(np.float16),
        gain=r.uniform(0.5, 1.5, hidden).astype(np.float32),
        eps=1e-6,
        fold=fold,
    )


def logits_of(head: HeadWeights, x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the float32 logits (8, vocab) of x (1, hidden, 1, 8)."""
    rows = x[0, :, 0].astype(np.float32)
    normed = rows / np.sqrt((rows * rows).mean(0) + np.float32(head.eps)) * head.gain[:, None]
    matrix = head.lut.astype(np.float32)[head.idx] * head.scale.astype(np.float32)[:, None]
    out: npt.NDArray[np.float32] = (matrix @ normed).T.astype(np.float32)
    return out


def write_head_file(path: Path, head: HeadWeights) -> SafetensorsFile:
    """Write lm_head.safetensors in the export's form and return it parsed."""
    vocab, hidden = head.idx.shape
    specs = {
        "lm_head.idx": ("U8", (vocab, hidden)),
        "lm_head.lut": ("F16", (16, 1)),
        "lm_head.scale": ("F16", (vocab,)),
    }
    with SafetensorsWriter(path, specs, {}) as writer:
        writer.write("lm_head.idx", head.idx)
        writer.write("lm_head.lut", head.lut.reshape(16, 1))
        writer.write("lm_head.scale", head.scale)
    return read_safetensors(path)
