"""A plain reading of the release contract's section 2: float64, one block at a time, a ring of W slots.

Written apart from the product: no shared code, loops where the product batches. Tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from forgepack.geometry import Geometry

F64 = npt.NDArray[np.float64]


def norm(x: F64, gain: F64, eps: float) -> F64:
    out: F64 = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain
    return out


class PlainDrafter:
    """Commit rows by ``add_context``, draft by ``propose``."""

    def __init__(
        self,
        geometry: Geometry,
        weights: Mapping[str, npt.NDArray[np.generic]],
        *,
        head: npt.NDArray[np.generic],
        embedding: npt.NDArray[np.generic],
        mask_scale: float,
    ) -> None:
        self.g = geometry
        self.w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        self.head, self.embedding = np.asarray(head, np.float64), np.asarray(embedding, np.float64)
        self.mask_scale = mask_scale
        self.slots: dict[int, tuple[int, F64]] = {}

    def add_context(self, features: npt.NDArray[np.generic], start: int) -> None:
        for offset, row in enumerate(np.asarray(features, np.float64)):
            fused = norm(self.w["fc.weight"] @ row, self.w["hidden_norm.weight"], self.g.rms_eps)
            self.slots[(start + offset) % self.g.window] = (start + offset, fused)

    def hidden(self, anchor: int, position: int) -> F64:
        g = self.g
        x = self.embedding[[anchor] + [g.mask_token] * (g.block - 1)]
        for layer in range(g.layers):
            name = f"layers.{layer}."
            n = norm(x, self.w[name + "input_layernorm.weight"], g.rms_eps)
            if layer == 0:
                n[1:] *= self.mask_scale
            x = x + self._around(name + "attention_conv", n, partial(self._attend, layer, position))
            n = norm(x, self.w[name + "post_attention_layernorm.weight"], g.rms_eps)
            x = x + self._around(name + "mlp_conv", n, partial(self._mlp, name))
        return norm(x, self.w["norm.weight"], g.rms_eps)

    def propose(self, anchor: int, position: int) -> list[int]:
        h = self.hidden(anchor, position)
        logits = h @ self.head.T
        hp = h @ self.w["candidate_selector.hidden_projection.weight"].T
        before, after = (self.w[f"candidate_selector.{p}_codebook"] for p in ("predecessor", "successor"))
        previous, out = anchor, []
        for i in range(1, self.g.block):
            best = np.lexsort((np.arange(len(self.head)), -logits[i]))[: self.g.selector_top_k].tolist()
            scores = [logits[i][c] + (before[previous] * hp[i]) @ after[c] for c in best]
            previous = best[int(np.argmax(scores))]
            out.append(previous)
        return out

    def _around(self, name: str, n: F64, inner: Callable[[F64], F64]) -> F64:
        g = self.g
        d = (n @ self.w[name + ".kernel_projection.weight"].T).reshape(g.block, 2, g.conv_kernel, g.groups)
        base = self.w[name + ".base_kernel"]

        def convolve(u: F64, side: int) -> F64:
            out = np.zeros_like(u)
            for t in range(g.block):
                for tap in range(min(t + 1, g.conv_kernel)):
                    for c in range(g.hidden):
                        out[t, c] += (base[side, tap, c] + d[t, side, tap, c // g.conv_group]) * u[t - tap, c]
            return out

        return convolve(inner(convolve(n, 0)), 1)

    def _turn(self, x: F64, position: int) -> F64:
        half = self.g.head_dim // 2
        angle = position * self.g.rope_theta ** (-np.arange(half) / half)
        low, high = x[:half], x[half:]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin])

    def _key_value(self, layer: int, row: F64, position: int) -> list[tuple[F64, F64]]:
        g, name = self.g, f"layers.{layer}.self_attn."
        keys = (self.w[name + "k_proj.weight"] @ row).reshape(g.kv_heads, g.head_dim)
        values = (self.w[name + "v_proj.weight"] @ row).reshape(g.kv_heads, g.head_dim)
        gain = self.w[name + "k_norm.weight"]
        return [(self._turn(norm(k, gain, g.rms_eps), position), v) for k, v in zip(keys, values, strict=True)]

    def _attend(self, layer: int, position: int, u: F64) -> F64:
        g, name = self.g, f"layers.{layer}.self_attn."
        seen = [(at, self._key_value(layer, row, at)) for at, row in self.slots.values()]
        seen += [(position + t, self._key_value(layer, u[t], position + t)) for t in range(g.block)]
        out = np.zeros((g.block, g.heads, g.head_dim))
        for t in range(g.block):
            queries = (self.w[name + "q_proj.weight"] @ u[t]).reshape(g.heads, g.head_dim)
            visible = [kv for at, kv in seen if abs(position + t - at) < g.window]
            for head, query in enumerate(queries):
                turned = self._turn(norm(query, self.w[name + "q_norm.weight"], g.rms_eps), position + t)
                pairs = [kv[head // (g.heads // g.kv_heads)] for kv in visible]
                scores = np.array([turned @ k for k, _ in pairs]) / np.sqrt(g.head_dim)
                weights = np.exp(scores - scores.max())
                out[t, head] = weights @ np.array([v for _, v in pairs]) / weights.sum()
        return out.reshape(g.block, -1) @ self.w[name + "o_proj.weight"].T

    def _mlp(self, name: str, u: F64) -> F64:
        gate, up, down = (self.w[f"{name}mlp.{p}_proj.weight"] for p in ("gate", "up", "down"))
        z = u @ gate.T
        out: F64 = (z / (1 + np.exp(-z)) * (u @ up.T)) @ down.T
        return out
