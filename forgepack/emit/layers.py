"""The drafter's layers in Core AI operations: context rows, attention, dynamic convolutions, MLP.

Source of the maths: the release contract, sections 2 and 4. Shapes: activations are (1, channels, 1, rows); per head
they are (heads, rows, head_dim). From layer 0's attention add on, the residual is carried divided by resid_scale,
and eps in the norms over it is divided by its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.blocks import lut_linear, rms_norm
from forgepack.coreai_backend.ops import Ops
from forgepack.emit.table import KERNEL_ZERO_CODES, KERNEL_ZERO_OFFSET, ZERO_ROW, scalar_values
from forgepack.geometry import Geometry
from forgepack.profile import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Cosines and sines of the rows' positions, (rows, head_dim), both halves alike."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """What the block's queries may see: ring, new context rows, mask (block, window + context_rows + block)."""

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    rotation: Rotation
    mask: Tensor


class LayerBuilder:
    """Inserts the drafter's parts into one entry point."""

    def __init__(self, ops: Ops, geometry: Geometry, recipe: Recipe) -> None:
        self._ops = ops
        self._geometry = geometry
        self._scalars = {role: value for role, (value, _) in scalar_values(geometry, recipe).items()}

    def context(self, features: Tensor, rotation: Rotation, rows: int) -> list[Tensor]:
        """Return keys and values of committed rows, k0, v0, k1, … each (kv_heads, rows, head_dim)."""
        ops, g = self._ops, self._geometry
        fused = self._norm("hidden_norm", lut_linear(ops, "fc", features), "features")
        out = []
        for layer in range(g.layers):
            name = f"layers.{layer}.self_attn"
            out.append(self._rotated(f"{name}.k", fused, g.kv_heads, rows, rotation))
            out.append(self._heads(lut_linear(ops, f"{name}.v_proj", fused), g.kv_heads, rows))
        return out

    def layer(self, number: int, x: Tensor, attended: Attended) -> Tensor:
        """Return the residual (1, hidden, 1, block) after one layer; layer 0 takes it whole, the others carried."""
        ops, name = self._ops, f"layers.{number}"
        normed = self._norm(f"{name}.input_layernorm", x, "plain" if number == 0 else "residual")
        coefficients = self._coefficients(f"{name}.attention_conv", normed)
        mixed = self._convolve(f"{name}.attention_conv", normed, coefficients, side=0)
        attention = self._attention(f"{name}.self_attn", mixed, attended)
        if number == 0:
            x = ops.mul(x, self._scalar("scalar.residual"))
        x = ops.add(x, self._convolve(f"{name}.attention_conv", attention, coefficients, side=1))
        normed = self._norm(f"{name}.post_attention_layernorm", x, "residual")
        coefficients = self._coefficients(f"{name}.mlp_conv", normed)
        mixed = self._convolve(f"{name}.mlp_conv", normed, coefficients, side=0)
        return ops.add(x, self._convolve(f"{name}.mlp_conv", self._mlp(f"{name}.mlp", mixed), coefficients, side=1))

    def final_norm(self, x: Tensor) -> Tensor:
        """Return the drafter's hidden state from the carried residual."""
        return self._norm("norm", x, "residual")

    def _scalar(self, role: str) -> Tensor:
        return self._ops.scalar(self._scalars[role])

    def _norm(self, name: str, x: Tensor, scaled: str, axis: int = 1) -> Tensor:
        role = "scalar.eps_root" if scaled == "plain" else f"scalar.eps_root.{scaled}"
        return rms_norm(self._ops, x, self._ops.named(name), axis=axis, eps_root=self._scalars[role])

    def _heads(self, x: Tensor, heads: int, rows: int) -> Tensor:
        split = self._ops.reshape(x, (heads, self._geometry.head_dim, rows))
        return self._ops.transpose(split, (0, 2, 1))

    def _rotated(self, name: str, x: Tensor, heads: int, rows: int, rotation: Rotation) -> Tensor:
        """Return RoPE(norm(proj x)) of ``<name>_proj`` and ``<name>_norm``: NeoX half split, all dimensions."""
        ops, size = self._ops, self._geometry.head_dim
        split = self._heads(lut_linear(ops, f"{name}_proj", x), heads, rows)
        normed = self._norm(f"{name}_norm", split, "plain", axis=2)
        first = ops.slice(normed, (0, 0, 0), (heads, rows, size // 2))
        second = ops.slice(normed, (0, 0, size // 2), (heads, rows, size))
        turned = ops.concat([ops.mul(second, self._scalar("scalar.minus_one")), first], 2)
        return ops.add(ops.mul(normed, rotation.cos), ops.mul(turned, rotation.sin))

    def _coefficients(self, name: str, normed: Tensor) -> Tensor:
        """Return the dynamic coefficients (sides·taps, groups, block), sides outermost."""
        ops, g = self._ops, self._geometry
        role = f"{name}.kernel_projection"
        kernel = ops.int8_kernel(
            ops.named(f"{role}.int8"),
            ops.named(f"{role}.scale"),
            ops.named(KERNEL_ZERO_CODES),
            ops.named(KERNEL_ZERO_OFFSET),
        )
        return ops.reshape(ops.pointwise(normed, kernel), (2 * g.conv_kernel, g.groups, g.block))

    def _convolve(self, name: str, x: Tensor, coefficients: Tensor, *, side: int) -> Tensor:
        """Return sum over taps k of (base[side,k] + coefficients[side,k,t])·x[t-k]; x before the block is 0."""
        ops, g = self._ops, self._geometry
        grouped = ops.reshape(x, (g.groups, g.conv_group, g.block))
        total = None
        for tap in range(g.conv_kernel):
            row = side * g.conv_kernel + tap
            dynamic = ops.slice(coefficients, (row, 0, 0), (row + 1, g.groups, g.block))
            dynamic = ops.reshape(dynamic, (g.groups, 1, g.block))
            kernel = ops.add(dynamic, ops.named(f"{name}.base_kernel.{side}.{tap}"))
            term = ops.mul(kernel, self._delayed(grouped, tap))
            total = term if total is None else ops.add(total, term)
        return ops.reshape(total, (1, g.hidden, 1, g.block))

    def _delayed(self, grouped: Tensor, rows: int) -> Tensor:
        if rows == 0:
            return grouped
        ops, g = self._ops, self._geometry
        kept = ops.slice(grouped, (0, 0, 0), (g.groups, g.conv_group, g.block - rows))
        return ops.concat([ops.named(ZERO_ROW)] * rows + [kept], 2)

    def _attention(self, name: str, mixed: Tensor, attended: Attended) -> Tensor:
        """Return o_proj of the attention over ring, new rows and block, grouped queries on each key head."""
        ops, g = self._ops, self._geometry
        group = g.heads // g.kv_heads
        queries = self._rotated(f"{name}.q", mixed, g.heads, g.block, attended.rotation)
        block_keys = self._rotated(f"{name}.k", mixed, g.kv_heads, g.block, attended.rotation)
        block_values = self._heads(lut_linear(ops, f"{name}.v_proj", mixed), g.kv_heads, g.block)
        queries = ops.mul(queries, self._scalar("scalar.attention"))
        queries = ops.reshape(queries, (g.kv_heads, group * g.block, g.head_dim))
        keys, values = [*attended.keys, block_keys], [*attended.values, block_values]
        scores = ops.concat([ops.matmul(queries, ops.transpose(k, (0, 2, 1))) for k in keys], 2)
        weights = self._softmax(scores, attended.mask, group)
        mixed_values = self._weighted(weights, values, group * g.block)
        heads = ops.reshape(mixed_values, (g.heads, g.block, g.head_dim))
        flat = ops.reshape(ops.transpose(heads, (0, 2, 1)), (1, g.query_width, 1, g.block))
        return lut_linear(ops, f"{name}.o_proj", flat)

    def _softmax(self, scores: Tensor, mask: Tensor, group: int) -> Tensor:
        ops, g = self._ops, self._geometry
        seen = g.window + g.context_rows + g.block
        masked = ops.add(ops.reshape(scores, (g.kv_heads, group, g.block, seen)), mask)
        return ops.reshape(ops.softmax(masked, 3), (g.kv_heads, group * g.block, seen))

    def _weighted(self, weights: Tensor, values: Sequence[Tensor], rows: int) -> Tensor:
        ops, g = self._ops, self._geometry
        total, start = None, 0
        for value, size in zip(values, (g.window, g.context_rows, g.block), strict=True):
            part = ops.slice(weights, (0, 0, start), (g.kv_heads, rows, start + size))
            term = ops.matmul(part, value)
            total = term if total is None else ops.add(total, term)
            start += size
        return total

    def _mlp(self, name: str, mixed: Tensor) -> Tensor:
        """Return down(silu(gate)·up) with SiLU as z·(1 + tanh z), z = gate/2 (the half is in gate's scale)."""
        ops = self._ops
        half = lut_linear(ops, f"{name}.gate_proj", mixed)
        up = lut_linear(ops, f"{name}.up_proj", mixed)
        active = ops.mul(half, ops.add(ops.tanh(half), self._scalar("scalar.one")))
        return lut_linear(ops, f"{name}.down_proj", ops.mul(active, up))
