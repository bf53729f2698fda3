"""The package's two entry points, ``draft`` and ``ctx<prefill rows>``, over one copy of the weights."""

from __future__ import annotations

from collections.abc import Mapping

from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.blocks import lut_linear
from forgepack.coreai_backend.builder import Function
from forgepack.coreai_backend.ops import Ops
from forgepack.emit.layers import Attended, LayerBuilder, Rotation
from forgepack.geometry import Geometry, Shape
from forgepack.profile import Recipe

Ports = tuple[tuple[str, Shape], ...]


def draft_inputs(g: Geometry) -> Ports:
    """Return the inputs of ``draft`` in order; all are float16."""
    seen = g.window + g.context_rows + g.block
    ring = (g.kv_heads, g.window, g.head_dim)
    return (
        ("feat", (1, g.features, 1, g.context_rows)),
        ("ctx_cos", (g.context_rows, g.head_dim)),
        ("ctx_sin", (g.context_rows, g.head_dim)),
        ("anchor", (1, g.hidden, 1, 1)),
        ("q_cos", (g.block, g.head_dim)),
        ("q_sin", (g.block, g.head_dim)),
        ("mask", (g.block, seen)),
        *((f"{kind}c{layer}", ring) for layer in range(g.layers) for kind in "kv"),
    )


def draft_outputs(g: Geometry) -> Ports:
    """Return the outputs of ``draft`` in order."""
    return (
        *_new_rows(g, g.context_rows),
        ("logits", (g.block - 1, g.vocab)),
        ("hp", (1, g.selector_rank, 1, g.block)),
        ("hidden", (1, g.hidden, 1, g.block)),
    )


def prefill_inputs(g: Geometry) -> Ports:
    """Return the inputs of the prefill entry point in order."""
    rows = g.prefill_rows
    return ("feat", (1, g.features, 1, rows)), ("ctx_cos", (rows, g.head_dim)), ("ctx_sin", (rows, g.head_dim))


def prefill_outputs(g: Geometry) -> Ports:
    """Return the outputs of the prefill entry point in order."""
    return _new_rows(g, g.prefill_rows)


def entries(g: Geometry) -> dict[str, dict[str, list[str]]]:
    """Return the entry points with the names of their inputs and outputs, as the sidecar lists them."""
    signatures = {
        "draft": (draft_inputs(g), draft_outputs(g)),
        g.prefill_entry: (prefill_inputs(g), prefill_outputs(g)),
    }
    return {
        name: {"inputs": [n for n, _ in inputs], "outputs": [n for n, _ in outputs]}
        for name, (inputs, outputs) in signatures.items()
    }


def _new_rows(g: Geometry, rows: int) -> Ports:
    shape = (g.kv_heads, rows, g.head_dim)
    return tuple((f"{kind}_new{layer}", shape) for layer in range(g.layers) for kind in "kv")


def drafter_functions(g: Geometry, recipe: Recipe) -> tuple[Function, Function]:
    """Return both entry points; their constants go by the roles of the constant table."""

    def draft(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return _draft(LayerBuilder(ops, g, recipe), ops, g, inputs)

    def prefill(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rotation = Rotation(cos=inputs["ctx_cos"], sin=inputs["ctx_sin"])
        rows = LayerBuilder(ops, g, recipe).context(inputs["feat"], rotation, g.prefill_rows)
        return {name: row for (name, _), row in zip(prefill_outputs(g), rows, strict=True)}

    return (
        Function(name="draft", inputs=draft_inputs(g), outputs=draft_outputs(g), body=draft),
        Function(name=g.prefill_entry, inputs=prefill_inputs(g), outputs=prefill_outputs(g), body=prefill),
    )


def _draft(layers: LayerBuilder, ops: Ops, g: Geometry, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    new = Rotation(cos=inputs["ctx_cos"], sin=inputs["ctx_sin"])
    block = Rotation(cos=inputs["q_cos"], sin=inputs["q_sin"])
    rows = layers.context(inputs["feat"], new, g.context_rows)
    x = ops.concat([inputs["anchor"]] + [ops.named("mask_row")] * (g.block - 1), 3)
    for number in range(g.layers):
        attended = Attended(
            keys=(inputs[f"kc{number}"], rows[2 * number]),
            values=(inputs[f"vc{number}"], rows[2 * number + 1]),
            rotation=block,
            mask=inputs["mask"],
        )
        x = layers.layer(number, x, attended)
    hidden = layers.final_norm(x)
    results = {name: row for (name, _), row in zip(_new_rows(g, g.context_rows), rows, strict=True)}
    results["logits"] = _logits(ops, g, hidden)
    results["hp"] = ops.pointwise(hidden, ops.named("candidate_selector.hidden_projection"))
    results["hidden"] = hidden
    return results


def _logits(ops: Ops, g: Geometry, hidden: Tensor) -> Tensor:
    """Return the target's head over rows 1.., (block - 1, vocab): they predict the tokens AT their positions."""
    rows = ops.slice(hidden, (0, 0, 0, 1), (1, g.hidden, 1, g.block))
    parts = ops.concat([lut_linear(ops, f"head.{part}", rows) for part in range(g.head_parts)], 1)
    return ops.transpose(ops.reshape(parts, (g.vocab, g.block - 1)), (1, 0))
