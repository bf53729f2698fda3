"""The one table of the package's constants: emitter and lineage check read it, nobody repeats a formula.

Folds (contract, section 4): the residual is carried divided by ``resid_scale`` from layer 0's attention add on, so
the scales of o_proj and down_proj are divided by it; tables are multiplied by a power of two and the scales divided
by it; SiLU's 0.5 goes into the gate's scale; the mask scale goes into rows 1.. of layer 0's input norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from forgepack.coreai_backend.blocks import NORM_FLOOR
from forgepack.coreai_backend.ops import LUT_SHAPE
from forgepack.emit.constant_spec import Array, ConstantSpec, Sources, row_blocks
from forgepack.geometry import Geometry, Shape, int8_matrices, lut_matrices
from forgepack.profile import Recipe
from forgepack.quantize.folds import lut_factor, scale_factor

MASK_ROW = "target:embedding[mask]"
MASK_SCALE = "recipe:mask_scale"
KERNEL_ZERO_CODES = "zeros.kernel_projection.codes"
KERNEL_ZERO_OFFSET = "zeros.kernel_projection.offset"
ZERO_ROW = "zeros.row"


def constant_table(geometry: Geometry, recipe: Recipe) -> dict[str, ConstantSpec]:
    """Return every constant of the package by role; ``recipe.mask_scale`` is the deployment's mask scale."""
    specs = [
        *_scalars(geometry, recipe),
        *_matrices(geometry, recipe),
        *_kernel_projections(geometry),
        *_norms(geometry),
        *_base_kernels(geometry),
        *_head(geometry, recipe),
        _mask_row(geometry),
        _hidden_projection(geometry),
    ]
    return {spec.role: spec for spec in sorted(specs, key=lambda spec: spec.role)}


def role_of(name: str) -> str:
    """Return the role's stem of a checkpoint tensor: its name without ``.weight``."""
    return name.removesuffix(".weight")


def scalar_values(geometry: Geometry, recipe: Recipe) -> Mapping[str, tuple[float, str]]:
    """Return the inline numbers of the program, role -> (value, formula)."""
    eps_root = math.sqrt(geometry.rms_eps)
    return {
        "scalar.norm_floor": (NORM_FLOOR, f"{NORM_FLOOR:g}"),
        "scalar.eps_root": (eps_root, "sqrt(rms_eps)"),
        "scalar.eps_root.features": (eps_root * recipe.feat_scale, "sqrt(rms_eps) * feat_scale"),
        "scalar.eps_root.residual": (eps_root / recipe.resid_scale, "sqrt(rms_eps) / resid_scale"),
        "scalar.residual": (1.0 / recipe.resid_scale, "1 / resid_scale"),
        "scalar.attention": (geometry.head_dim**-0.5, "1 / sqrt(head_dim)"),
        "scalar.minus_one": (-1.0, "-1"),
        "scalar.one": (1.0, "1"),
    }


def _scalars(geometry: Geometry, recipe: Recipe) -> Iterator[ConstantSpec]:
    for role, (value, formula) in scalar_values(geometry, recipe).items():
        number = np.array(value, np.float32)
        exact = _constant(number)
        yield ConstantSpec(
            role=role, dtype="F16", shape=(), formula=f"fp16({formula})", sources=(), exact=exact, inline=True
        )
    rows = 2 * geometry.conv_kernel * geometry.groups
    for role, dtype, shape in (
        (KERNEL_ZERO_CODES, "I8", (rows, 1, 1, 1)),
        (KERNEL_ZERO_OFFSET, "F16", (rows, 1, 1, 1)),
        (ZERO_ROW, "F16", (geometry.groups, geometry.conv_group, 1)),
    ):
        zeros = np.zeros(shape, np.int8 if dtype == "I8" else np.float32)
        yield ConstantSpec(role=role, dtype=dtype, shape=shape, formula="0", sources=(), exact=_constant(zeros))


def _matrices(geometry: Geometry, recipe: Recipe) -> Iterator[ConstantSpec]:
    for name, (rows, columns) in lut_matrices(geometry).items():
        role, source = role_of(name), f"quant:{name}"
        yield _indices(f"{role}.idx", (rows, columns, 1, 1), f"{source}.idx", slice(None))
        yield _scaled(f"{role}.lut", LUT_SHAPE, f"{source}.lut", lut_factor(name, recipe))
        yield _scaled(f"{role}.scale", (1, rows, 1, 1), f"{source}.scale", scale_factor(name, recipe))


def _head(geometry: Geometry, recipe: Recipe) -> Iterator[ConstantSpec]:
    fold = recipe.lut_fold_default
    for part in range(geometry.head_parts):
        start = part * geometry.part_rows
        stop = min(start + geometry.part_rows, geometry.vocab)
        rows, role = slice(start, stop), f"head.{part}"
        yield _indices(f"{role}.idx", (stop - start, geometry.hidden, 1, 1), "head:lm_head.idx", rows)
        yield _scaled(f"{role}.lut", LUT_SHAPE, "head:lm_head.lut", fold)
        yield _scaled(f"{role}.scale", (1, stop - start, 1, 1), "head:lm_head.scale", 1.0 / fold, rows=rows)


def _kernel_projections(geometry: Geometry) -> Iterator[ConstantSpec]:
    for name, (rows, columns) in int8_matrices(geometry).items():
        role, source = role_of(name), f"quant:{name}"
        yield ConstantSpec(
            role=f"{role}.int8",
            dtype="I8",
            shape=(rows, columns, 1, 1),
            formula=f"{source}.int8",
            sources=(f"{source}.int8",),
            exact=_whole(f"{source}.int8"),
        )
        yield _scaled(f"{role}.scale", (rows, 1, 1, 1), f"{source}.scale", 1.0)


def _norms(geometry: Geometry) -> Iterator[ConstantSpec]:
    wide, narrow = (1, geometry.hidden, 1, 1), (1, 1, geometry.head_dim)
    for name in ("hidden_norm.weight", "norm.weight"):
        yield _scaled(role_of(name), wide, f"checkpoint:{name}", 1.0)
    for layer in range(geometry.layers):
        prefix = f"layers.{layer}."
        if layer == 0:
            yield _masked_norm(geometry, f"{prefix}input_layernorm")
        else:
            yield _scaled(f"{prefix}input_layernorm", wide, f"checkpoint:{prefix}input_layernorm.weight", 1.0)
        name = f"{prefix}post_attention_layernorm"
        yield _scaled(name, wide, f"checkpoint:{name}.weight", 1.0)
        for norm in ("q_norm", "k_norm"):
            name = f"{prefix}self_attn.{norm}"
            yield _scaled(name, narrow, f"checkpoint:{name}.weight", 1.0)


def _masked_norm(geometry: Geometry, role: str) -> ConstantSpec:
    """Layer 0's input norm, a row a block position: w for the anchor, w·mask_scale in float32 for the masks."""
    source = f"checkpoint:{role}.weight"

    def exact(sources: Sources) -> Iterator[Array]:
        weight = np.asarray(sources(source), np.float32)
        masked = weight * np.float32(sources(MASK_SCALE))
        yield np.stack([weight] + [masked] * (geometry.block - 1), axis=1)

    return ConstantSpec(
        role=role,
        dtype="F16",
        shape=(1, geometry.hidden, 1, geometry.block),
        formula=f"row 0: fp16({source}); other rows: fp16(float32({source}) * float32({MASK_SCALE}))",
        sources=(source, MASK_SCALE),
        exact=exact,
    )


def _base_kernels(geometry: Geometry) -> Iterator[ConstantSpec]:
    for layer in range(geometry.layers):
        for conv in ("attention_conv", "mlp_conv"):
            name = f"layers.{layer}.{conv}.base_kernel"
            for side in range(2):
                for tap in range(geometry.conv_kernel):
                    yield _base_kernel(geometry, name, side, tap)


def _base_kernel(geometry: Geometry, name: str, side: int, tap: int) -> ConstantSpec:
    source = f"checkpoint:{name}"

    def exact(sources: Sources) -> Iterator[Array]:
        yield np.asarray(sources(source)[side, tap], np.float32)

    return ConstantSpec(
        role=f"{name}.{side}.{tap}",
        dtype="F16",
        shape=(geometry.groups, geometry.conv_group, 1),
        formula=f"fp16({source}[{side},{tap}])",
        sources=(source,),
        exact=exact,
    )


def _mask_row(geometry: Geometry) -> ConstantSpec:
    return ConstantSpec(
        role="mask_row",
        dtype="F16",
        shape=(1, geometry.hidden, 1, 1),
        formula=f"{MASK_ROW} (token {geometry.mask_token})",
        sources=(MASK_ROW,),
        exact=_whole(MASK_ROW),
    )


def _hidden_projection(geometry: Geometry) -> ConstantSpec:
    name = "candidate_selector.hidden_projection.weight"
    return _scaled(role_of(name), (geometry.selector_rank, geometry.hidden, 1, 1), f"checkpoint:{name}", 1.0)


def _indices(role: str, shape: Shape, source: str, rows: slice) -> ConstantSpec:
    def exact(sources: Sources) -> Iterator[Array]:
        return row_blocks(sources(source)[rows])

    return ConstantSpec(
        role=role,
        dtype="U4",
        shape=shape,
        formula=f"pack4({source}{_rows(rows)})",
        sources=(source,),
        exact=exact,
    )


def _scaled(role: str, shape: Shape, source: str, factor: float, *, rows: slice = slice(None)) -> ConstantSpec:
    """Return fp16(float32(source)·factor) for a power of two ``factor``."""

    def exact(sources: Sources) -> Iterator[Array]:
        yield np.asarray(sources(source)[rows], np.float32) * np.float32(factor)

    value = f"{source}{_rows(rows)}"
    formula = f"fp16({value})" if factor == 1.0 else f"fp16(float32({value}) * {factor!r})"
    return ConstantSpec(role=role, dtype="F16", shape=shape, formula=formula, sources=(source,), exact=exact)


def _rows(rows: slice) -> str:
    return "" if rows == slice(None) else f"[{rows.start}:{rows.stop}]"


def _whole(source: str) -> Callable[[Sources], Iterator[Array]]:
    return lambda sources: iter((sources(source),))


def _constant(value: Array) -> Callable[[Sources], Iterator[Array]]:
    return lambda _sources: iter((value,))
