"""Geometry of a DFlash2 drafter and its target: the numbers from which every shape follows.

Source: the release contract, section 1 (checkpoint) and section 4 (package). All fields are counts unless
said otherwise; the same code serves the release (hidden 5120) and the embedded miniature (hidden 128).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Every dimension that drafter, package and pairing share."""

    hidden: int
    vocab: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    taps: tuple[int, ...]
    target_layers: int
    window: int
    block: int
    context_rows: int
    prefill_rows: int
    selector_rank: int
    selector_top_k: int
    conv_group: int
    conv_kernel: int
    mask_token: int
    rope_theta: float
    rms_eps: float
    head_parts: int

    @property
    def features(self) -> int:
        """Width of one feature row: all taps side by side, in tap order."""
        return self.hidden * len(self.taps)

    @property
    def groups(self) -> int:
        """Channel groups of a dynamic convolution."""
        return self.hidden // self.conv_group

    @property
    def query_width(self) -> int:
        """Width of the query projection's output."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the key and of the value projection's output."""
        return self.kv_heads * self.head_dim

    @property
    def hf_taps(self) -> tuple[int, ...]:
        """The same taps as Hugging Face ``hidden_states`` indices: layer id + 1."""
        return tuple(i + 1 for i in self.taps)

    @property
    def part_rows(self) -> int:
        """Rows of one part of the head: ceil(vocab / parts)."""
        return -(-self.vocab // self.head_parts)

    @property
    def prefill_entry(self) -> str:
        """Name of the prefill entry point of the package."""
        return f"ctx{self.prefill_rows}"


def parse_geometry(values: dict[str, Any]) -> Geometry:
    """Build a Geometry from a profile's JSON object, whose form is checked already."""
    return Geometry(**{**values, "taps": tuple(values["taps"])})


def lut_matrices(g: Geometry) -> dict[str, Shape]:
    """Return the matrices that are quantized to LUT4 as ``name -> (rows, columns)``, in file order."""
    out: dict[str, Shape] = {"fc.weight": (g.hidden, g.features)}
    for n in range(g.layers):
        attn, mlp = f"layers.{n}.self_attn.", f"layers.{n}.mlp."
        out[attn + "q_proj.weight"] = (g.query_width, g.hidden)
        out[attn + "k_proj.weight"] = (g.kv_width, g.hidden)
        out[attn + "v_proj.weight"] = (g.kv_width, g.hidden)
        out[attn + "o_proj.weight"] = (g.hidden, g.query_width)
        out[mlp + "gate_proj.weight"] = (g.intermediate, g.hidden)
        out[mlp + "up_proj.weight"] = (g.intermediate, g.hidden)
        out[mlp + "down_proj.weight"] = (g.hidden, g.intermediate)
    return out


def int8_matrices(g: Geometry) -> dict[str, Shape]:
    """Return the matrices that are quantized to INT8 per row as ``name -> (rows, columns)``."""
    rows = 2 * g.conv_kernel * g.groups
    return {
        f"layers.{n}.{conv}.kernel_projection.weight": (rows, g.hidden)
        for n in range(g.layers)
        for conv in ("attention_conv", "mlp_conv")
    }


def codebook_tensors(g: Geometry) -> dict[str, Shape]:
    """Return the selector's two codebooks, the only tensors of selector.safetensors."""
    shape = (g.vocab, g.selector_rank)
    return {
        "candidate_selector.predecessor_codebook": shape,
        "candidate_selector.successor_codebook": shape,
    }


def checkpoint_tensors(g: Geometry) -> dict[str, Shape]:
    """Return all tensors of the checkpoint, ``name -> shape``: a closed set, all BF16 (contract 1.2)."""
    out = {**lut_matrices(g), **int8_matrices(g), **codebook_tensors(g)}
    out["candidate_selector.hidden_projection.weight"] = (g.selector_rank, g.hidden)
    out["hidden_norm.weight"] = (g.hidden,)
    out["norm.weight"] = (g.hidden,)
    for n in range(g.layers):
        layer = f"layers.{n}."
        out[layer + "input_layernorm.weight"] = (g.hidden,)
        out[layer + "post_attention_layernorm.weight"] = (g.hidden,)
        out[layer + "self_attn.q_norm.weight"] = (g.head_dim,)
        out[layer + "self_attn.k_norm.weight"] = (g.head_dim,)
        for conv in ("attention_conv", "mlp_conv"):
            out[f"{layer}{conv}.base_kernel"] = (2, g.conv_kernel, g.hidden)
    return dict(sorted(out.items()))


def quant_tensors(g: Geometry) -> dict[str, tuple[str, Shape]]:
    """Return the tensors of drafter_quant.safetensors, ``name -> (dtype, shape)`` (contract 3)."""
    out: dict[str, tuple[str, Shape]] = {}
    for name, (rows, cols) in lut_matrices(g).items():
        out[f"{name}.lut"] = ("F16", (16, 1))
        out[f"{name}.idx"] = ("U8", (rows, cols))
        out[f"{name}.scale"] = ("F16", (rows,))
    for name, (rows, cols) in int8_matrices(g).items():
        out[f"{name}.int8"] = ("I8", (rows, cols))
        out[f"{name}.scale"] = ("F16", (rows,))
    return dict(sorted(out.items()))
