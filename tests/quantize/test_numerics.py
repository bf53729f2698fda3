"""Values that can't be computed with, and values that need care: each a clear error or a documented treatment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.traces import read_traces
from forgepack.errors import CorruptError, ForgepackError, NumericsError
from forgepack.geometry import checkpoint_tensors, int8_matrices
from forgepack.profile import Profile
from forgepack.quantize.folds import count_out_of_range, lut_factor, scale_factor
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from tests.synthetic import GEOMETRY, Tensors, make_embedding, make_weights
from tests.synthetic_files import open_sources, write_checkpoint

NONFINITE = [np.nan, np.inf, -np.inf]
O_PROJ, UP, CONV = (
    "layers.0.self_attn.o_proj.weight",
    "layers.1.mlp.up_proj.weight",
    next(iter(int8_matrices(GEOMETRY))),
)


def run(sources: Sources, out: Path, profile: Profile) -> dict[str, Any]:
    return quantize(sources, out, profile=profile, options=Options()).report


def with_weights(pair: Path, root: Path, profile: Profile, change: Callable[[Tensors], None]) -> Sources:
    """Read a copy of the pair whose checkpoint has been changed; its traces are unbound."""
    weights = make_weights()
    change(weights)
    shutil.copytree(pair / "target", root / "target")
    write_checkpoint(root / "checkpoint", weights)
    shutil.copy(pair / "unbound.npz", root)
    return open_sources(root, profile, traces="unbound.npz")


def with_arrays(sources: Sources, root: Path, change: Callable[[Tensors], None]) -> Sources:
    """Return the sources with changed arrays of their traces, without identity."""
    archive = sources.traces.archive
    arrays: Tensors = {name: archive.read(name).copy() for name in archive.arrays if name != "forgepack_identity"}
    change(arrays)
    np.savez(root / "changed.npz", allow_pickle=False, **arrays)
    traces = read_traces(root / "changed.npz", GEOMETRY)
    return Sources(checkpoint=sources.checkpoint, target=sources.target, traces=traces)


def dense(tensors: SafetensorsFile, name: str) -> np.ndarray:
    scale = tensors.array(f"{name}.scale").astype(np.float32)[:, None]
    if f"{name}.int8" in tensors.tensors:
        return np.asarray(tensors.array(f"{name}.int8").astype(np.float32) * scale)
    lut = tensors.array(f"{name}.lut").astype(np.float32).reshape(-1)
    return np.asarray(lut[tensors.array(f"{name}.idx")] * scale)


def assert_sound(report: dict[str, Any]) -> None:
    for name, matrix in report["matrices"].items():
        errors = [value for kind in matrix["error"].values() for value in kind.values()]
        assert np.isfinite(errors).all(), name


@pytest.mark.parametrize("value", NONFINITE)
@pytest.mark.parametrize("name", sorted({n.replace("layers.1", "layers.0") for n in checkpoint_tensors(GEOMETRY)}))
def test_one_nonfinite_weight_is_named_before_any_work(
    pair: Path, profile: Profile, tmp_path: Path, name: str, value: float
) -> None:
    """In any tensor, those too that quantization leaves alone: tensor and place are named, no matrix is begun."""

    def spoil(weights: Tensors) -> None:
        weights[name].reshape(-1)[-1] = value

    sources = with_weights(pair, tmp_path, profile, spoil)
    begun: list[Any] = []
    with pytest.raises(NumericsError) as caught:
        quantize(sources, tmp_path / "q", profile=profile, options=Options(), progress=begun.append)
    assert (4, "nonfinite") == (caught.value.exit_code, caught.value.code)
    assert name in str(caught.value.where)
    assert f"{value} at flat index {make_weights()[name].size - 1}" == caught.value.found
    assert ([], False) == (begun, (tmp_path / "q").exists())


@pytest.mark.parametrize("value", NONFINITE)
@pytest.mark.parametrize("sequence", [0, 2], ids=["calibration", "held out"])
def test_one_nonfinite_feature_is_named_before_any_work(
    sources: Sources, profile: Profile, tmp_path: Path, value: float, sequence: int
) -> None:
    """Of a sequence that calibrates or judges: sequence and place are named, no matrix is begun."""

    def spoil(arrays: Tensors) -> None:
        arrays[f"feats_{sequence}"][4, 2, 7] = value

    changed = with_arrays(sources, tmp_path, spoil)
    begun: list[Any] = []
    with pytest.raises(NumericsError) as caught:
        quantize(changed, tmp_path / "q", profile=profile, options=Options(), progress=begun.append)
    assert (4, "nonfinite", str(np.float16(value))) == (caught.value.exit_code, caught.value.code, caught.value.found)
    assert f"feats_{sequence}[4, 2, 7]" in str(caught.value.where)
    assert ([], False) == (begun, (tmp_path / "q").exists())


@pytest.mark.parametrize("value", NONFINITE)
@pytest.mark.parametrize("array", ["tokens_1", "plen_1", "m_1"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_no_other_array_of_traces_can_hold_a_nonfinite_value(
    sources: Sources, tmp_path: Path, array: str, value: float, kind: type[np.floating]
) -> None:
    """They are integers: an array of floats, the only kind that could hold one, is refused by its form and named."""

    def spoil(arrays: Tensors) -> None:
        changed = np.array(arrays[array], kind)
        changed[... if changed.ndim == 0 else 0] = value
        arrays[array] = changed

    with pytest.raises(CorruptError) as caught:
        with_arrays(sources, tmp_path, spoil)
    assert (4, "traces-form") == (caught.value.exit_code, caught.value.code)
    assert f"'{array}'" in str(caught.value.where)


@pytest.mark.parametrize("value", NONFINITE)
@pytest.mark.parametrize("array", ["tokens_1", "plen_1", "m_1"])
def test_what_a_cast_leaves_of_a_nonfinite_value_is_out_of_range(
    sources: Sources, tmp_path: Path, array: str, value: float
) -> None:
    """A recorder that casts such a value to the array's integers leaves one end of their range: never legal."""

    def spoil(arrays: Tensors) -> None:
        with np.errstate(invalid="ignore"):
            cast = np.array(value, np.float64).astype(np.int64)
        limits = np.iinfo(arrays[array].dtype)
        arrays[array] = arrays[array].copy()
        arrays[array][... if arrays[array].ndim == 0 else 0] = np.clip(cast, limits.min, limits.max)

    with pytest.raises(CorruptError) as caught:
        with_arrays(sources, tmp_path, spoil)
    assert (4, "traces-range") == (caught.value.exit_code, caught.value.code)
    assert f"sequence 1.{array[:-2]}" in str(caught.value.where)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_an_identity_holds_no_nonfinite_number(pair: Path, sources: Sources, tmp_path: Path, value: str) -> None:
    """JSON has no such numbers, and Python's own extension of it is refused."""
    arrays = {name: sources.traces.archive.read(name) for name in sources.traces.archive.arrays}
    text = arrays["forgepack_identity"].tobytes().replace(b'"mask_scale": 0.7', b'"mask_scale": ' + value.encode())
    assert value.encode() in text
    arrays["forgepack_identity"] = np.frombuffer(text, np.uint8)
    np.savez(tmp_path / "t.npz", allow_pickle=False, **arrays)
    with pytest.raises(ForgepackError) as caught:
        read_traces(tmp_path / "t.npz", GEOMETRY)
    assert caught.value.exit_code == 4
    assert "forgepack_identity" in str(caught.value.where)


@pytest.mark.parametrize("value", NONFINITE)
@pytest.mark.parametrize("which", ["the mask token", "an anchor"])
def test_a_nonfinite_embedding_in_use_is_named_before_any_work(
    pair: Path, sources: Sources, profile: Profile, tmp_path: Path, value: float, which: str
) -> None:
    """The rows that the recorded blocks start with, and the mask token's: the token is named."""
    sequence = sources.traces.sequences[0]
    token = GEOMETRY.mask_token if which == "the mask token" else int(sequence.tokens[sequence.positions[0]])
    shutil.copytree(pair, tmp_path / "pair")
    table = make_embedding()
    table[token, 5] = value
    np.save(tmp_path / "pair" / "target" / "model" / "embed_tokens_fp16.npy", table)
    begun: list[Any] = []
    changed = open_sources(tmp_path / "pair", profile, traces="unbound.npz")
    with pytest.raises(NumericsError) as caught:
        quantize(changed, tmp_path / "q", profile=profile, options=Options(), progress=begun.append)
    assert (4, "nonfinite", []) == (caught.value.exit_code, caught.value.code, begun)
    assert f"row {token}" in str(caught.value.where)


def test_dead_features_are_counted_and_rounded_plainly(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """Channels that no row of any sequence feeds are reported, and fc is quantized all the same."""

    def silence(arrays: Tensors) -> None:
        for name in arrays:
            if name.startswith("feats"):
                arrays[name][:, 1, [3, 9]] = 0

    report = run(with_arrays(sources, tmp_path, silence), tmp_path / "q", profile)
    assert 2 == report["matrices"]["fc.weight"]["dead_columns"]
    assert_sound(report)


def test_fewer_rows_than_columns_are_enough(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """One block a sequence: no Hessian has full rank, each is factorized with the plain damping."""

    def cut(arrays: Tensors) -> None:
        for name in arrays:
            if name.startswith("m_"):
                arrays[name] = arrays[name][:1]

    report = run(with_arrays(sources, tmp_path, cut), tmp_path / "q", profile)
    luts = {name: m for name, m in report["matrices"].items() if m["format"] == "lut4"}
    assert all(m["rows"] < m["shape"][1] for m in luts.values()), {n: m["rows"] for n, m in luts.items()}
    assert {profile.recipe.damping} == {m["damping"] for m in luts.values()}
    assert_sound(report)


def test_constant_rows_and_rows_of_zeros_are_kept(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """A constant row stays within half a step of its format; a row of zeros is 0, or float16's smallest values."""

    def flatten(weights: Tensors) -> None:
        for name in (O_PROJ, UP, CONV):
            weights[name][0], weights[name][1] = 0, 0.25

    sources = with_weights(pair, tmp_path, profile, flatten)
    report = run(sources, tmp_path / "q", profile)
    assert_sound(report)
    tensors = read_quant(tmp_path / "q", GEOMETRY).tensors
    for name in (O_PROJ, UP, CONV):
        values = dense(tensors, name)
        assert np.abs(values[1] - 0.25).max() <= 0.25 * (2**-10 if name == CONV else 0.15), name
        assert np.abs(values[0]).max() <= (0 if name == CONV else 1e-6), name


def test_a_matrix_of_zeros_is_taken(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """It comes back as zeros, and the error of outputs that are all 0 is 0."""

    def clear(weights: Tensors) -> None:
        weights[O_PROJ][:] = 0
        weights[CONV][:] = 0

    report = run(with_weights(pair, tmp_path, profile, clear), tmp_path / "q", profile)
    tensors = read_quant(tmp_path / "q", GEOMETRY).tensors
    for name in (O_PROJ, CONV):
        assert not dense(tensors, name).any()
        assert 0 == report["matrices"][name]["error"]["held_out"]["quantized"]
    assert_sound(report)


@pytest.mark.parametrize("name", [O_PROJ, CONV])
def test_a_row_too_large_for_a_float16_scale_is_named(
    pair: Path, profile: Profile, tmp_path: Path, name: str
) -> None:
    """A finite row whose scale float16 can't hold is an error with matrix and row, not an infinite scale."""

    def enlarge(weights: Tensors) -> None:
        weights[name][2] = ml_dtypes.bfloat16(1e7)

    with pytest.raises(NumericsError) as caught:
        run(with_weights(pair, tmp_path, profile, enlarge), tmp_path / "q", profile)
    assert (4, "scale-overflow") == (caught.value.exit_code, caught.value.code)
    assert f"{name} row 2" == caught.value.where


F16 = np.float16


@pytest.mark.parametrize(
    ("name", "smallest_scale"),
    [
        ("layers.0.self_attn.o_proj.weight", 9.77e-4),
        ("layers.0.mlp.down_proj.weight", 2.45e-4),
    ],
)
def test_folds_leave_the_normal_range_at_the_documented_places(
    profile: Profile, name: str, smallest_scale: float
) -> None:
    """Scales under 9.8e-4 in o_proj and 2.5e-4 in down_proj become subnormal; zeros do not count, infinities do."""
    factor = scale_factor(name, profile.recipe)
    values = np.array([0, smallest_scale * 0.98, smallest_scale * 1.02], F16)
    assert {"subnormal": 1, "overflow": 0} == count_out_of_range(values, factor)
    large = np.array([6e4], F16)
    assert {"subnormal": 0, "overflow": int(6e4 * factor > 65504)} == count_out_of_range(large, factor)
    codes = np.array([6.0e-5 / lut_factor(name, profile.recipe), 1, -6.0e-5 / lut_factor(name, profile.recipe)], F16)
    assert {"subnormal": 2, "overflow": 0} == count_out_of_range(codes, lut_factor(name, profile.recipe))
