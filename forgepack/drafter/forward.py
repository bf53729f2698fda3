"""The forward pass: all blocks of all sequences through one layer at a time, each matrix loaded once.

Source of the maths: the release contract, section 2. An Observer sees the input rows of every matrix before that
matrix is loaded: this is what calibration is built on, so that replay and calibration can't differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forgepack.drafter.attention import attend
from forgepack.drafter.batch import BlockBatch
from forgepack.drafter.context import context_key_value
from forgepack.drafter.functions import group_conv, rms_norm, rope_tables, rotate, silu
from forgepack.drafter.linear import ROW_SPAN, map_blocks, multiply
from forgepack.drafter.weights import DrafterWeights
from forgepack.geometry import Geometry
from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]
KeyValue = tuple[F32, F32]


class Observer(Protocol):
    """Sees what feeds each matrix and its products, in the order of the pass; arrays must not be kept or changed."""

    def observe(self, names: tuple[str, ...], rows: F32) -> None:
        """Take the block rows (blocks·B, inputs) that the matrices ``names`` share."""
        ...

    def observe_attention(self, layer: int, rows: F32, contexts: list[F32]) -> None:
        """Take the block rows that feed q_proj, k_proj and v_proj of a layer.

        ``contexts`` are the fused context rows of each sequence, which feed k_proj and v_proj as well.
        """
        ...

    def observe_product(self, name: str, start: int, product: F32) -> None:
        """Take a matrix's products with the block rows from ``start`` on. Called from any thread, in any order."""
        ...

    def observe_context_product(self, name: str, sequence: int, product: F32) -> None:
        """Take k_proj's or v_proj's products with the fused context rows of a sequence; from any thread."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One drafter's forward pass over batches; ``mask_scale`` multiplies rows 1.. of layer 0's input norm."""

    weights: DrafterWeights
    mask_scale: float
    pool: Pool
    observer: Observer | None = None

    @property
    def geometry(self) -> Geometry:
        """The drafter's shapes."""
        return self.weights.geometry

    def hidden(self, x: F32, batch: BlockBatch, ring: list[list[KeyValue]] | None = None) -> F32:
        """Return the final norm's output (blocks, B, H) of input rows ``x``, which is overwritten.

        ``ring[l][i]``, where given, holds layer l's context keys and values of sequence i; else they are computed
        from the fused context and dropped after their layer.
        """
        for layer in range(self.geometry.layers):
            self._attention(layer, x, batch, None if ring is None else ring[layer])
            self._mlp(layer, x)
        return self._normed(x, "norm.weight", scaled=False)

    def ring(self, layer: int, contexts: list[F32]) -> list[KeyValue]:
        """Return layer ``layer``'s context keys and values for the fused context of each sequence."""
        name = f"layers.{layer}.self_attn."
        k_proj, v_proj = self.weights.tensor(name + "k_proj.weight"), self.weights.tensor(name + "v_proj.weight")
        k_norm = self.weights.tensor(name + "k_norm.weight")
        out = []
        for number, rows in enumerate(contexts):
            both = (multiply(rows, k_proj, self.pool), multiply(rows, v_proj, self.pool))
            if self.observer is not None:
                for part, product in zip("kv", both, strict=True):
                    self.observer.observe_context_product(f"{name}{part}_proj.weight", number, product)
            positions = np.arange(len(rows))
            out.append(context_key_value(both, k_norm, positions=positions, geometry=self.geometry))
        return out

    def _multiply(self, rows: F32, name: str) -> F32:
        """Return the products of block rows (n, inputs) with a matrix, and show them to the observer."""
        out = multiply(rows, self.weights.tensor(name), self.pool)
        if self.observer is not None:
            self.pool.spans(len(out), ROW_SPAN, partial(self._show, name, out))
        return out

    def _show(self, name: str, product: F32, span: slice) -> None:
        assert self.observer is not None
        self.observer.observe_product(name, span.start, product[span])

    def _observe(self, names: tuple[str, ...], rows: F32) -> None:
        if self.observer is not None:
            self.observer.observe(names, rows.reshape(-1, rows.shape[-1]))

    def _normed(self, x: F32, name: str, *, scaled: bool) -> F32:
        gain, out = self.weights.tensor(name), np.empty_like(x)

        def task(span: slice) -> None:
            out[span] = rms_norm(x[span], gain, self.geometry.rms_eps)
            if scaled:
                out[span, 1:] *= np.float32(self.mask_scale)

        map_blocks(len(x), task, self.pool)
        return out

    def _kernels(self, normed: F32, name: str) -> F32:
        """Return a dynamic convolution's coefficients (blocks, B, 2 sides, K taps, groups)."""
        g = self.geometry
        weight = name + ".kernel_projection.weight"
        self._observe((weight,), normed)
        flat = self._multiply(normed.reshape(-1, g.hidden), weight)
        return flat.reshape(*normed.shape[:2], 2, g.conv_kernel, g.groups)

    def _convolve(self, u: F32, kernels: F32, base: F32, *, add_to: F32 | None = None) -> F32:
        """Return the convolution of ``u``, or add it to ``add_to`` in place."""
        out = np.empty_like(u) if add_to is None else add_to

        def task(span: slice) -> None:
            part = group_conv(u[span], kernels[span], base)
            if add_to is None:
                out[span] = part
            else:
                out[span] += part

        map_blocks(len(u), task, self.pool)
        return out

    def _attention(self, layer: int, x: F32, batch: BlockBatch, ring: list[KeyValue] | None) -> None:
        g, name = self.geometry, f"layers.{layer}."
        base = self.weights.tensor(name + "attention_conv.base_kernel")
        normed = self._normed(x, name + "input_layernorm.weight", scaled=layer == 0)
        kernels = self._kernels(normed, name + "attention_conv")
        rows = self._convolve(normed, kernels[:, :, 0], base[0])
        del normed
        contexts = [s.context for s in batch.sequences]
        flat = rows.reshape(-1, g.hidden)
        if self.observer is not None:
            self.observer.observe_attention(layer, flat, contexts)
        projected = [self._multiply(flat, f"{name}self_attn.{part}_proj.weight") for part in "qkv"]
        del rows, flat
        ring = self.ring(layer, contexts) if ring is None else ring
        mixed = self._mix(layer, projected, batch, ring)
        del projected
        o_proj = f"{name}self_attn.o_proj.weight"
        self._observe((o_proj,), mixed)
        out = self._multiply(mixed.reshape(-1, g.query_width), o_proj)
        self._convolve(out.reshape(x.shape), kernels[:, :, 1], base[1], add_to=x)

    def _mix(self, layer: int, projected: list[F32], batch: BlockBatch, ring: list[KeyValue]) -> F32:
        """Return the attention's output (blocks, B, heads·D), one sequence a task."""
        g, name = self.geometry, f"layers.{layer}.self_attn."
        norms = self.weights.tensor(name + "q_norm.weight"), self.weights.tensor(name + "k_norm.weight")
        out = np.empty((batch.blocks, g.block, g.query_width), np.float32)
        query, key, value = (p.reshape(batch.blocks, g.block, -1, g.head_dim) for p in projected)

        def task(number: int) -> None:
            span = slice(batch.bounds[number], batch.bounds[number + 1])
            positions = batch.sequences[number].positions
            tables = rope_tables(positions[:, None] + np.arange(g.block), g.head_dim, g.rope_theta)
            cos, sin = (t[:, :, None] for t in tables)
            turned = rotate(rms_norm(query[span], norms[0], g.rms_eps), cos, sin)
            own = rotate(rms_norm(key[span], norms[1], g.rms_eps), cos, sin), value[span]
            out[span] = attend(turned, own, ring[number], positions=positions, geometry=g)

        busy = [n for n, s in enumerate(batch.sequences) if s.positions.size]
        self.pool.run([partial(task, n) for n in busy])
        return out

    def _mlp(self, layer: int, x: F32) -> None:
        g, name = self.geometry, f"layers.{layer}."
        base = self.weights.tensor(name + "mlp_conv.base_kernel")
        normed = self._normed(x, name + "post_attention_layernorm.weight", scaled=False)
        kernels = self._kernels(normed, name + "mlp_conv")
        rows = self._convolve(normed, kernels[:, :, 0], base[0])
        del normed
        gate, up, down = (f"{name}mlp.{p}_proj.weight" for p in ("gate", "up", "down"))
        self._observe((gate, up), rows)
        inner = self._gated(rows.reshape(-1, g.hidden), gate, up)
        del rows
        self._observe((down,), inner)
        out = self._multiply(inner, down)
        self._convolve(out.reshape(x.shape), kernels[:, :, 1], base[1], add_to=x)

    def _gated(self, rows: F32, gate: str, up: str) -> F32:
        """Return silu(gate·m)·(up·m), a span of rows at a time: only the product is ever whole in memory."""
        matrices = self.weights.tensor(gate), self.weights.tensor(up)
        out = np.empty((len(rows), self.geometry.intermediate), np.float32)

        def task(span: slice) -> None:
            opened, other = (rows[span] @ matrix.T for matrix in matrices)
            if self.observer is not None:
                self.observer.observe_product(gate, span.start, opened)
                self.observer.observe_product(up, span.start, other)
            np.multiply(silu(opened), other, out=out[span])

        self.pool.spans(len(rows), ROW_SPAN, task)
        return out
