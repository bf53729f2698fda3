"""The constant table: every fold by hand, every shape, nothing more and nothing less than the program uses."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from forgepack.emit.constant_spec import Narrowing, count_narrowing, to_float16
from forgepack.emit.graph import draft_inputs, draft_outputs, entries, prefill_inputs, prefill_outputs
from forgepack.emit.table import constant_table
from forgepack.errors import NumericsError
from forgepack.packing import unpack_u4
from forgepack.profile import load_profile
from tests.emit.conftest import Emitted
from tests.emit.synthetic import ODD, RECIPE, Array, geometry, make_weights

WEIGHTS = make_weights(ODD)
TABLE = constant_table(geometry(ODD), RECIPE)


def value(role: str) -> Array:
    return TABLE[role].evaluate(WEIGHTS)


def half(values: Array) -> Array:
    return np.asarray(values, np.float32).astype(np.float16)


def test_roles_are_exactly_what_the_program_uses(odd: Emitted) -> None:
    """Each named constant of the authored program has a row, and each row that is not inline is used."""
    recorded = odd.result.sidecar["forgepack"]["package"]["constants"]
    assert set(TABLE) == set(recorded)
    roles = {role for role, spec in TABLE.items() if not spec.inline}
    named = {constant.name for constant in odd.reading.program.constants if constant.name is not None}
    assert named <= roles
    content = {TABLE[role].digest(WEIGHTS) for role in roles}
    assert content == {c.sha256 for c in odd.reading.program.constants if c.name is not None}


def test_release_has_its_known_number_of_constants_and_bytes() -> None:
    """At the release's geometry: the floor of LUT4 indices, and 12 values a row and table above it."""
    profile = load_profile()
    table = constant_table(profile.geometry, profile.recipe)
    indices = [spec for spec in table.values() if spec.dtype == "U4"]
    assert len(indices) == 36 + 8
    assert sum(int(np.prod(spec.shape, dtype=np.int64)) for spec in indices) // 2 == 1_500_774_400


@pytest.mark.parametrize(
    ("matrix", "lut", "scale"),
    [
        ("fc", 1 / 16, 16.0),
        ("layers.1.self_attn.q_proj", 1 / 16, 16.0),
        ("layers.0.self_attn.o_proj", 1 / 16, 16.0 / 256),
        ("layers.0.mlp.gate_proj", 1 / 16, 8.0),
        ("layers.1.mlp.up_proj", 1 / 16, 16.0),
        ("layers.1.mlp.down_proj", 1 / 64, 64.0 / 256),
    ],
)
def test_folds_of_lut_matrices(matrix: str, lut: float, scale: float) -> None:
    """Table and scales carry the contract's powers of two; indices are packed as they are."""
    source = f"quant:{matrix}.weight"
    rows = len(WEIGHTS(f"{source}.scale"))
    np.testing.assert_array_equal(
        half(WEIGHTS(f"{source}.lut").astype(np.float32) * lut).ravel(), value(f"{matrix}.lut").ravel()
    )
    assert value(f"{matrix}.lut").shape == (1, 1, 1, 1, 16, 1)
    np.testing.assert_array_equal(
        half(WEIGHTS(f"{source}.scale").astype(np.float32) * scale), value(f"{matrix}.scale").ravel()
    )
    assert value(f"{matrix}.scale").shape == (1, rows, 1, 1)
    indices = WEIGHTS(f"{source}.idx")
    np.testing.assert_array_equal(indices, unpack_u4(value(f"{matrix}.idx"), indices.shape))


def test_head_parts_cover_the_vocabulary_in_order() -> None:
    """101 rows in 4 parts of 26: the last has 23; table x 1/16, scales x 16."""
    parts = [unpack_u4(value(f"head.{n}.idx"), TABLE[f"head.{n}.idx"].shape) for n in range(4)]
    assert [len(part) for part in parts] == [26, 26, 26, 23]
    np.testing.assert_array_equal(WEIGHTS("head:lm_head.idx"), np.concatenate(parts).reshape(101, -1))
    scales = np.concatenate([value(f"head.{n}.scale").ravel() for n in range(4)])
    np.testing.assert_array_equal(half(WEIGHTS("head:lm_head.scale").astype(np.float32) * 16), scales)
    np.testing.assert_array_equal(
        half(WEIGHTS("head:lm_head.lut").astype(np.float32) / 16).ravel(), value("head.2.lut").ravel()
    )


def test_mask_scale_is_folded_per_row_of_layer_0_alone() -> None:
    """Row 0 is the weight, rows 1.. are fp16(float32(w)·0.7); other layers have no rows."""
    weight = WEIGHTS("checkpoint:layers.0.input_layernorm.weight").astype(np.float32)
    rows = value("layers.0.input_layernorm")
    assert rows.shape == (1, 48, 1, 5)
    np.testing.assert_array_equal(half(weight), rows[0, :, 0, 0])
    for row in range(1, 5):
        np.testing.assert_array_equal((weight * np.float32(0.7)).astype(np.float16), rows[0, :, 0, row])
    assert value("layers.1.input_layernorm").shape == (1, 48, 1, 1)


def test_base_kernels_are_split_by_side_and_tap() -> None:
    """Each side and tap of a base kernel is a constant of its own, channels in groups."""
    kernel = WEIGHTS("checkpoint:layers.1.mlp_conv.base_kernel").astype(np.float32)
    for side in range(2):
        for tap in range(2):
            part = value(f"layers.1.mlp_conv.base_kernel.{side}.{tap}")
            assert part.shape == (12, 4, 1)
            np.testing.assert_array_equal(half(kernel[side, tap]), part.ravel())


def test_kernel_projections_keep_codes_and_scales() -> None:
    """INT8 codes and scales enter as they are."""
    role = "layers.0.attention_conv.kernel_projection"
    np.testing.assert_array_equal(WEIGHTS(f"quant:{role}.weight.int8"), value(f"{role}.int8")[:, :, 0, 0])
    np.testing.assert_array_equal(WEIGHTS(f"quant:{role}.weight.scale"), value(f"{role}.scale").ravel())


def test_scalars_follow_from_geometry_and_recipe() -> None:
    """Eps enters as its root, times the factor by which its norm's input is scaled; other folds as they are."""
    expected = {
        "scalar.eps_root": 1e-3,
        "scalar.eps_root.features": 1.25e-4,
        "scalar.eps_root.residual": 1e-3 / 256,
        "scalar.residual": 1 / 256,
        "scalar.attention": 0.25,
        "scalar.norm_floor": 1e-3,
        "scalar.minus_one": -1.0,
        "scalar.one": 1.0,
    }
    assert {role: np.float16(v) for role, v in expected.items()} == {
        role: value(role)[()] for role in TABLE if TABLE[role].inline
    }


def test_digest_is_that_of_the_payload() -> None:
    """A spec's digest covers exactly the bytes that it evaluates to, however it is cut into blocks."""
    for role, spec in TABLE.items():
        assert hashlib.sha256(value(role).tobytes()).hexdigest() == spec.digest(WEIGHTS), role


def test_blocks_of_a_large_matrix_join_without_seams() -> None:
    """Indices of more than one block pack to the same bytes as in one piece."""
    rows, columns = 4097, 4096
    idx = np.random.default_rng(0).integers(0, 16, (rows, columns)).astype(np.uint8)
    spec = TABLE["fc.idx"]
    whole = replace(spec, shape=(rows, columns, 1, 1))
    blocks = list(whole.blocks(lambda _name: idx))
    assert len(blocks) > 1
    np.testing.assert_array_equal(idx, unpack_u4(np.concatenate(blocks), (rows, columns)))


@pytest.mark.parametrize("bad", [7e4, -7e4, np.inf, np.nan])
def test_values_that_do_not_fit_float16_are_refused(bad: float) -> None:
    """Overflow and non-finite values are an error that names the constant and the first place."""
    values = np.array([1.0, bad, 2.0], np.float32)
    with pytest.raises(NumericsError) as caught:
        to_float16(values, "norm")
    assert caught.value.where == "norm"
    assert "flat index 1" in str(caught.value.found)


def test_a_fold_that_overflows_is_refused() -> None:
    """A scale that its fold takes over 65504 is refused."""
    name = "quant:fc.weight.scale"
    arrays = dict(WEIGHTS.arrays)
    arrays[name] = arrays[name].copy()
    arrays[name][3] = 5000.0
    with pytest.raises(NumericsError, match="fit float16"):
        TABLE["fc.scale"].evaluate(replace(WEIGHTS, arrays=arrays))


def test_loss_below_the_normal_range_is_counted() -> None:
    """Values under 2^-14 that change are counted, those that vanish apart; exact subnormals and zeros are not."""
    values = np.array([0.0, 1.0, 2.0**-24, 1.5 * 2.0**-24, 2.0**-26, -3e-5, 2.0**-14], np.float32)
    assert Narrowing(changed=3, zeroed=1) == count_narrowing(values)


def test_signatures_of_the_release() -> None:
    """Names and shapes of the release's two entry points, as the runtime calls them."""
    g = load_profile().geometry
    rings = {f"{kind}c{layer}": (8, 2048, 128) for layer in range(5) for kind in "kv"}
    assert dict(draft_inputs(g)) == {
        "feat": (1, 25600, 1, 8),
        "ctx_cos": (8, 128),
        "ctx_sin": (8, 128),
        "anchor": (1, 5120, 1, 1),
        "q_cos": (8, 128),
        "q_sin": (8, 128),
        "mask": (8, 2064),
        **rings,
    }
    new = {f"{kind}_new{layer}": (8, 8, 128) for layer in range(5) for kind in "kv"}
    assert dict(draft_outputs(g)) == {
        **new,
        "logits": (7, 248320),
        "hp": (1, 256, 1, 8),
        "hidden": (1, 5120, 1, 8),
    }
    assert dict(prefill_inputs(g)) == {"feat": (1, 25600, 1, 64), "ctx_cos": (64, 128), "ctx_sin": (64, 128)}
    assert dict(prefill_outputs(g)) == dict.fromkeys(new, (8, 64, 128))
    assert list(entries(g)) == ["draft", "ctx64"]
    assert entries(g)["draft"]["inputs"][:8] == [
        "feat",
        "ctx_cos",
        "ctx_sin",
        "anchor",
        "q_cos",
        "q_sin",
        "mask",
        "kc0",
    ]
