"""A target's stand-in as a release root: model/, export/<name>/ and coreai/, of the true sizes where they matter.

True: the LUT4 head, the embedding, the tokenizer's size, the manifest, and a head package that computes. Small:
the target's layers, and chunk packages that only have the true entry and output names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.noise import Noise, for_spans
from benchmarks.scales import Scale
from benchmarks.vocabulary import tokenizer_json
from benchmarks.weights import write_licence
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import dump_canonical, dump_compact
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import HeadWeights, author_chunk_standin, author_head_package
from forgepack.geometry import Geometry
from forgepack.parallel import Pool
from forgepack.quantize.lut import lloyd, midpoints

CHUNK_LAYERS = 4
EMBEDDING_RANK = 64
EMBEDDING_RMS = 0.02
_F16 = np.float16


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSpec:
    """Layers ``first``..``last`` of the target in one package."""

    first: int
    last: int
    taps: tuple[int, ...]

    @property
    def file(self) -> str:
        """Folder name of the package."""
        return f"chunk_L{self.first:02d}-{self.last:02d}.aimodel"

    @property
    def outputs(self) -> tuple[str, ...]:
        """``tap<i>`` for each tap inside, ``y`` for the last layer, tapped or not."""
        return (*(f"tap{tap}" for tap in self.taps if tap != self.last), "y")


def chunks(g: Geometry) -> Iterator[ChunkSpec]:
    """Yield the chunks in layer order."""
    for first in range(0, g.target_layers, CHUNK_LAYERS):
        last = min(first + CHUNK_LAYERS, g.target_layers) - 1
        yield ChunkSpec(first=first, last=last, taps=tuple(t for t in g.taps if first <= t <= last))


def export_name(scale: Scale) -> str:
    """Return the export's name."""
    return f"synthetic_{scale.name}"


def write_target(root: Path, scale: Scale, noise: Noise, pool: Pool) -> None:
    """Write the release root ``root``."""
    export, model = root / "export" / export_name(scale), root / "model"
    export.mkdir(parents=True, exist_ok=True)
    model.mkdir(exist_ok=True)
    write_licence(root)
    _write_model(model, scale, noise, pool)
    _write_head(export, scale.profile.geometry, noise, pool)
    _write_layers(export, scale.profile.geometry, noise)
    _write_build(root / "coreai", export, scale)


def _write_model(model: Path, scale: Scale, noise: Noise, pool: Pool) -> None:
    g, pin = scale.profile.geometry, scale.profile.target
    (model / "config.json").write_bytes(dump_canonical(_target_config(g, pin.eos_tokens)))
    (model / "tokenizer.json").write_bytes(dump_compact(tokenizer_json(pin, g.mask_token, noise)))
    settings = {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 262144, "chat_template": "{{ messages }}"}
    (model / "tokenizer_config.json").write_bytes(dump_canonical(settings))
    _write_embedding(model / "embed_tokens_fp16.npy", g, noise, pool)


def _target_config(g: Geometry, ends: tuple[int, ...]) -> dict[str, Any]:
    text = {
        "eos_token_id": ends[0],
        "hidden_size": g.hidden,
        "model_type": "synthetic_text",
        "num_hidden_layers": g.target_layers,
        "rms_norm_eps": g.rms_eps,
        "vocab_size": g.vocab,
    }
    return {"architectures": ["SyntheticForCausalLM"], "model_type": "synthetic", "text_config": text}


def _write_embedding(path: Path, g: Geometry, noise: Noise, pool: Pool) -> None:
    """Write rows that are half signal of low rank, half noise: rows of a trained table are alike."""
    table = np.lib.format.open_memmap(path, "w+", _F16, (g.vocab, g.hidden))
    mixing = noise.normal("embedding/mixing", (EMBEDDING_RANK, g.hidden)) * np.float32(EMBEDDING_RANK**-0.5)
    mixing *= noise.scales("embedding/columns", g.hidden, spread=0.4, outliers=0.003, factor=6.0)

    def task(number: int, span: slice) -> None:
        draw = noise.generator("embedding", number)
        count = span.stop - span.start
        part = draw.standard_normal((count, g.hidden), np.float32)
        part += draw.standard_normal((count, EMBEDDING_RANK), np.float32) @ mixing
        part *= np.float32(EMBEDDING_RMS * 0.5**0.5)
        table[span] = part.astype(_F16)

    for_spans((g.vocab, g.hidden), pool, task)
    table.flush()


def _write_head(export: Path, g: Geometry, noise: Noise, pool: Pool) -> None:
    quantiles = np.array([NormalDist().inv_cdf((n + 0.5) / 4096) for n in range(4096)], np.float32)
    codes = lloyd(quantiles, 40)
    of_byte = np.searchsorted(midpoints(codes), quantiles[8::16]).astype(np.uint8)  # index of a random byte
    specs: dict[str, tuple[str, tuple[int, ...]]] = {
        "lm_head.idx": ("U8", (g.vocab, g.hidden)),
        "lm_head.lut": ("F16", (16, 1)),
        "lm_head.scale": ("F16", (g.vocab,)),
    }
    scales = noise.scales("head/rows", g.vocab, spread=0.3, outliers=0.001, factor=3.0) * np.float32(g.hidden**-0.5)
    with SafetensorsWriter(export / "lm_head.safetensors", specs, {"format": "LUT4 per-tensor + pcs"}) as writer:
        indices = writer.view("lm_head.idx")

        def task(number: int, span: slice) -> None:
            data = noise.generator("head", number).bytes(indices[span].size)
            indices[span] = of_byte[np.frombuffer(data, np.uint8)].reshape(indices[span].shape)

        for_spans((g.vocab, g.hidden), pool, task)
        writer.write("lm_head.lut", codes[:, None])
        writer.write("lm_head.scale", scales.astype(_F16))


def _write_layers(export: Path, g: Geometry, noise: Noise) -> None:
    """Write stand-ins of the layer files: the gains of their norms alone, the last with the final norm."""
    note = {"note": "stand-in: norm gains of this layer only"}
    for layer in range(g.target_layers):
        names = ["post_attention_layernorm", *(["final_norm"] if layer == g.target_layers - 1 else [])]
        for file, tensors in ((f"layer_{layer:02d}", names), (f"layer_{layer:02d}_mixer", ["input_layernorm"])):
            specs: dict[str, tuple[str, tuple[int, ...]]] = dict.fromkeys(tensors, ("F16", (g.hidden,)))
            with SafetensorsWriter(export / f"{file}.safetensors", specs, note) as writer:
                for name in tensors:
                    writer.write(name, _gain(f"{file}/{name}", g, noise))


def _gain(label: str, g: Geometry, noise: Noise) -> npt.NDArray[np.float16]:
    gain: npt.NDArray[np.float32] = np.exp(noise.normal(label, (g.hidden,)) * np.float32(0.2))
    return gain.astype(_F16)


def _write_build(build: Path, export: Path, scale: Scale) -> None:
    g = scale.profile.geometry
    build.mkdir(exist_ok=True)
    manifest = _manifest(scale)
    entries = {name: (g.block if name.startswith("v") else g.prefill_rows) for name in _entries(scale)}
    for chunk in chunks(g):
        text = f"STAND-IN for layers {chunk.first} to {chunk.last}: entry and output names, no layer inside."
        metadata = _metadata(text, {"stand_in": True, "layers": [chunk.first, chunk.last]}, scale)
        author_chunk_standin(
            build / chunk.file, hidden=g.hidden, entries=entries, outputs=chunk.outputs, metadata=metadata
        )
    head, last = read_safetensors(export / "lm_head.safetensors"), f"layer_{g.target_layers - 1:02d}"
    weights = HeadWeights(
        idx=head.array("lm_head.idx"),
        lut=np.array(head.array("lm_head.lut"))[:, 0],
        scale=np.array(head.array("lm_head.scale")),
        gain=read_safetensors(export / f"{last}.safetensors").array("final_norm").astype(np.float32),
        eps=g.rms_eps,
    )
    metadata = _metadata("Head of a synthetic target. It computes.", {"stand_in": False}, scale)
    author_head_package(build / manifest["head"]["file"], weights, parts=g.head_parts, metadata=metadata)
    (build / "manifest.json").write_bytes(dump_canonical(manifest))


def _metadata(text: str, custom: dict[str, Any], scale: Scale) -> AssetMetadata:
    custom = {"export": export_name(scale), **custom}
    return AssetMetadata(author="forgepack", licence="Apache-2.0", description=text, custom=custom)


def _entries(scale: Scale) -> list[str]:
    g = scale.profile.geometry
    return [f"{kind}_{c // 1024}k" for c in scale.contexts for kind in (f"v{g.block}", f"p{g.prefill_rows}")]


def _manifest(scale: Scale) -> dict[str, Any]:
    g = scale.profile.geometry
    return {
        "version": 1,
        "T": g.block,
        "TP": g.prefill_rows,
        "pend": g.block,
        "taps": list(g.taps),
        "ctxs": list(scale.contexts),
        "pctxs": list(scale.contexts),
        "kv_len": {str(c): c - g.prefill_rows for c in scale.contexts},
        "export": export_name(scale),
        "kv_cache": {"dtype": "float16", "heads": g.kv_heads, "head_dim": g.head_dim},
        "chunks": [
            {
                "file": chunk.file,
                "layers": [chunk.first, chunk.last],
                "entries": _entries(scale),
                "taps": list(chunk.taps),
                "numerics": {"activations": "float16", "weights": "stand-in"},
            }
            for chunk in chunks(g)
        ],
        "head": {"file": f"head_T{g.block}.aimodel"},
    }
