"""An independent float32 reference of the drafter: no folds, no scaling, plain definitions (contract, section 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.emit.synthetic import Weights

F32 = npt.NDArray[Any]


class Reference:
    """The drafter over unquantized-looking float32 matrices rebuilt from the quantized ones."""

    def __init__(self, weights: Weights, *, mask_scale: float = 0.7) -> None:
        self.g = weights.geometry
        self.w = weights
        self.mask_scale = np.float32(mask_scale)

    def lut(self, name: str) -> F32:
        lut, idx, scale = (self.w(f"quant:{name}.weight.{k}") for k in ("lut", "idx", "scale"))
        out: F32 = lut.astype(np.float32).ravel()[idx] * scale.astype(np.float32)[:, None]
        return out

    def int8(self, name: str) -> F32:
        codes, scale = (self.w(f"quant:{name}.weight.{k}") for k in ("int8", "scale"))
        out: F32 = codes.astype(np.float32) * scale.astype(np.float32)[:, None]
        return out

    def plain(self, name: str) -> F32:
        out: F32 = self.w(f"checkpoint:{name}").astype(np.float32)
        return out

    def norm(self, x: F32, name: str, axis: int) -> F32:
        shape = [1] * x.ndim
        shape[axis] = -1
        mean = (x * x).mean(axis, keepdims=True)
        out: F32 = x / np.sqrt(mean + np.float32(self.g.rms_eps)) * self.plain(f"{name}.weight").reshape(shape)
        return out

    def heads(self, y: F32, count: int) -> F32:
        out: F32 = y.reshape(count, self.g.head_dim, -1).transpose(0, 2, 1)
        return out

    def rope(self, x: F32, cos: F32, sin: F32) -> F32:
        half = self.g.head_dim // 2
        turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
        out: F32 = x * cos + turned * sin
        return out

    def convolve(self, u: F32, coefficients: F32, base: F32) -> F32:
        """Convolve u (channels, rows) with coefficients (taps, groups, rows) and base (taps, channels)."""
        total = np.zeros_like(u)
        for tap in range(self.g.conv_kernel):
            delayed = np.zeros_like(u)
            delayed[:, tap:] = u[:, : u.shape[1] - tap]
            total += (base[tap][:, None] + np.repeat(coefficients[tap], self.g.conv_group, 0)) * delayed
        return total

    def context(self, features: F32, cos: F32, sin: F32) -> list[F32]:
        fused = self.norm(self.lut("fc") @ features, "hidden_norm", 0)
        out = []
        for layer in range(self.g.layers):
            name = f"layers.{layer}.self_attn"
            keys = self.norm(self.heads(self.lut(f"{name}.k_proj") @ fused, self.g.kv_heads), f"{name}.k_norm", 2)
            out += [self.rope(keys, cos, sin), self.heads(self.lut(f"{name}.v_proj") @ fused, self.g.kv_heads)]
        return out

    def attention(self, name: str, a: F32, keys: list[F32], values: list[F32], inputs: dict[str, F32]) -> F32:
        g = self.g
        cos, sin = inputs["q_cos"], inputs["q_sin"]
        q = self.heads(self.lut(f"{name}.q_proj") @ a, g.heads)
        q = self.rope(self.norm(q, f"{name}.q_norm", 2), cos, sin)
        k = self.heads(self.lut(f"{name}.k_proj") @ a, g.kv_heads)
        k = self.rope(self.norm(k, f"{name}.k_norm", 2), cos, sin)
        v = self.heads(self.lut(f"{name}.v_proj") @ a, g.kv_heads)
        all_k, all_v = np.concatenate([*keys, k], 1), np.concatenate([*values, v], 1)
        out = np.empty((g.heads, g.block, g.head_dim), np.float32)
        for head in range(g.heads):
            kv = head // (g.heads // g.kv_heads)
            scores = q[head] @ all_k[kv].T / np.float32(np.sqrt(g.head_dim)) + inputs["mask"]
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[head] = weights / weights.sum(-1, keepdims=True) @ all_v[kv]
        return self.lut(f"{name}.o_proj") @ out.transpose(0, 2, 1).reshape(g.query_width, g.block)

    def layer(self, number: int, x: F32, keys: list[F32], values: list[F32], inputs: dict[str, F32]) -> F32:
        name, g = f"layers.{number}", self.g
        n = self.norm(x, f"{name}.input_layernorm", 0)
        if number == 0:
            n[:, 1:] *= self.mask_scale
        shape = (2, g.conv_kernel, g.groups, g.block)
        d = (self.int8(f"{name}.attention_conv.kernel_projection") @ n).reshape(shape)
        base = self.plain(f"{name}.attention_conv.base_kernel")
        a = self.convolve(n, d[0], base[0])
        x = x + self.convolve(self.attention(f"{name}.self_attn", a, keys, values, inputs), d[1], base[1])
        n = self.norm(x, f"{name}.post_attention_layernorm", 0)
        d = (self.int8(f"{name}.mlp_conv.kernel_projection") @ n).reshape(shape)
        base = self.plain(f"{name}.mlp_conv.base_kernel")
        m = self.convolve(n, d[0], base[0])
        gate, up = self.lut(f"{name}.mlp.gate_proj") @ m, self.lut(f"{name}.mlp.up_proj") @ m
        y = self.lut(f"{name}.mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * up)
        return x + self.convolve(y, d[1], base[1])

    def draft(self, given: dict[str, Any]) -> dict[str, F32]:
        inputs: dict[str, F32] = {name: value.astype(np.float32) for name, value in given.items()}
        g = self.g
        rows = self.context(inputs["feat"][0, :, 0] * 8, inputs["ctx_cos"], inputs["ctx_sin"])
        mask_row = self.w("target:embedding[mask]").astype(np.float32)
        x = np.concatenate([inputs["anchor"][0, :, 0]] + [mask_row[:, None]] * (g.block - 1), 1)
        for n in range(g.layers):
            x = self.layer(n, x, [inputs[f"kc{n}"], rows[2 * n]], [inputs[f"vc{n}"], rows[2 * n + 1]], inputs)
        hidden = self.norm(x, "norm", 0)
        head = (
            self.w("head:lm_head.lut").astype(np.float32).ravel()[self.w("head:lm_head.idx")]
            * self.w("head:lm_head.scale").astype(np.float32)[:, None]
        )
        out = self._rows(rows)
        out["logits"] = (head @ hidden[:, 1:]).T
        out["hp"] = (self.plain("candidate_selector.hidden_projection.weight") @ hidden)[None, :, None]
        out["hidden"] = hidden[None, :, None]
        return out

    def prefill(self, given: dict[str, Any]) -> dict[str, F32]:
        inputs = {name: value.astype(np.float32) for name, value in given.items()}
        return self._rows(self.context(inputs["feat"][0, :, 0] * 8, inputs["ctx_cos"], inputs["ctx_sin"]))

    def _rows(self, rows: list[F32]) -> dict[str, F32]:
        return {f"{'kv'[n % 2]}_new{n // 2}": row for n, row in enumerate(rows)}
