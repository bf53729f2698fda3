"""Quantization from files to a QUANT folder: content, determinism, resuming."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.disk.places import work_folder
from forgepack.errors import UsageError
from forgepack.geometry import int8_matrices, lut_matrices
from forgepack.profile import Profile
from forgepack.quantize import lut
from forgepack.quantize.progress import Progress
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from tests.quantize.naive import naive_gptq
from tests.synthetic import GEOMETRY, make_weights, plain_drafter
from tests.synthetic_files import open_sources, write_checkpoint


class Stopped(Exception):  # noqa: N818
    """Stands for a kill."""


def run(sources: Sources, out: Path, profile: Profile, **options: Any) -> dict[str, Any]:
    return quantize(sources, out, profile=profile, options=Options(**options)).report


def contents(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(root.iterdir())}


def test_the_folder_is_read_back_strictly(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """What is written passes the strict reader: two files, the closed set of tensors, the report's digest."""
    report = run(sources, tmp_path / "q", profile)
    quant = read_quant(tmp_path / "q", GEOMETRY)
    assert json.loads(json.dumps(report)) == quant.report.raw
    assert ("gptq", "lut4_gptq", 0.7, 0.7, True) == (
        quant.report.method,
        quant.report.variant,
        quant.report.mask_scale,
        quant.report.calibration_mask_scale,
        quant.report.traces_bound,
    )
    assert {"traces": f"sha256:{sources.traces.digest}", "variant": "lut4_gptq"} == quant.tensors.metadata
    assert not work_folder(tmp_path / "q").exists()


def plain_inputs(sources: Sources) -> dict[str, np.ndarray]:
    """Collect the rows of the contract's section 3 from the plain drafter, one block at a time, for two matrices."""
    weights = make_weights()
    found: dict[str, list[np.ndarray]] = {"fc": [], "q": [], "kv": []}
    for number in (0, 1):  # the third sequence is held out
        sequence, features = sources.traces.sequences[number], sources.traces.features(number)
        drafter = plain_drafter(weights)
        drafter.add_context(features[: sequence.context_rows], 0)
        rows = features[: sequence.context_rows].astype(np.float64)
        found["fc"].extend(rows)
        fused = rows @ drafter.w["fc.weight"].T
        fused /= np.sqrt((fused * fused).mean(-1, keepdims=True) + GEOMETRY.rms_eps)
        found["kv"].extend(fused * drafter.w["hidden_norm.weight"])
        drafter.slots.clear()
        drafter.add_context(features[: sequence.plen], 0)
        seen: list[np.ndarray] = []
        attend = drafter._attend

        def spy(layer: int, position: int, u: np.ndarray, attend: Any = attend, seen: Any = seen) -> np.ndarray:
            if layer == 0:
                seen.append(u)
            out: np.ndarray = attend(layer, position, u)
            return out

        drafter._attend = spy  # type: ignore[method-assign]
        for p, m in zip(sequence.positions, sequence.accepted, strict=True):
            drafter.hidden(int(sequence.tokens[p]), int(p))
            drafter.add_context(features[p : p + m + 1], int(p))
        found["q"].extend(row for block in seen for row in block)
    found["kv"].extend(found["q"])
    return {name: np.array(rows) for name, rows in found.items()}


def test_hessians_are_fed_by_the_contracts_rows(sources: Sources, made: Path) -> None:
    """fc, q_proj, k_proj and v_proj get the indices of textbook GPTQ on rows gathered block by block."""
    quant = read_quant(made, GEOMETRY)
    inputs = plain_inputs(sources)
    kinds = {
        "fc.weight": "fc",
        **{f"layers.0.self_attn.{p}_proj.weight": k for p, k in zip("qkv", ("q", "kv", "kv"), strict=True)},
    }
    for name, kind in kinds.items():
        rows = inputs[kind]
        assert quant.report.raw["matrices"][name]["rows"] == len(rows)
        scale = quant.tensors.array(f"{name}.scale").astype(np.float64)[:, None]
        codes = quant.tensors.array(f"{name}.lut").astype(np.float64)[:, 0]
        weight = sources.checkpoint.tensor(name).astype(np.float64) / scale
        expected = naive_gptq(weight, rows.T @ rows / len(rows), codes, damping=0.01)
        assert np.mean(np.any(quant.tensors.array(f"{name}.idx") != expected, axis=1)) < 0.1, name


def test_errors_are_those_of_the_rows(sources: Sources, made: Path) -> None:
    """The report's relative errors equal ‖(W-Q)x‖/‖Wx‖ computed directly, on calibration and held-out rows."""
    quant = read_quant(made, GEOMETRY)
    rows = [sources.traces.features(n)[: sources.traces.sequences[n].context_rows] for n in range(3)]
    weight = sources.checkpoint.tensor("fc.weight").astype(np.float64)
    left = weight - quant.dequantize("fc.weight")
    for kind, x in (("calibration", np.concatenate(rows[:2])), ("held_out", rows[2])):
        wide = x.astype(np.float64).T
        expected = np.linalg.norm(left @ wide) / np.linalg.norm(weight @ wide)
        assert quant.report.raw["matrices"]["fc.weight"]["error"][kind]["quantized"] == pytest.approx(
            expected, rel=1e-3
        )


def test_gptq_has_the_lower_calibration_error(made: Path) -> None:
    """On the rows it was given, GPTQ is better than plain rounding for every matrix; INT8 is rounded plainly."""
    report = read_quant(made, GEOMETRY).report.raw
    for name, matrix in report["matrices"].items():
        error = matrix["error"]["calibration"]
        if name in lut_matrices(GEOMETRY):
            assert error["quantized"] < error["rtn"], name
        else:
            assert error["quantized"] == error["rtn"], name
    assert {"lut4": len(lut_matrices(GEOMETRY)), "int8": len(int8_matrices(GEOMETRY))} == {
        form: total["matrices"] for form, total in report["totals"].items()
    }
    errors = [m["error"]["held_out"]["rtn"] for m in report["matrices"].values() if m["format"] == "lut4"]
    assert report["totals"]["lut4"]["held_out"]["rtn"] == pytest.approx(np.mean(errors))


def test_two_runs_and_any_threads_give_the_same_bytes(
    sources: Sources, profile: Profile, made: Path, tmp_path: Path
) -> None:
    """Neither a second run nor another number of threads changes a byte of either file."""
    for threads in (1, 3):
        run(sources, tmp_path / str(threads), profile, threads=threads)
        assert contents(made) == contents(tmp_path / str(threads))


def test_rtn_is_the_plain_recipe(sources: Sources, profile: Profile, made: Path, tmp_path: Path) -> None:
    """Plain rounding has the plain recipe's scales, and its errors are those that GPTQ's report calls rtn."""
    rtn = run(sources, tmp_path / "r", profile, method="rtn")
    gptq = read_quant(made, GEOMETRY).report.raw
    left, right = read_quant(made, GEOMETRY).tensors, read_quant(tmp_path / "r", GEOMETRY).tensors
    for name in left.tensors:
        same = np.array_equal(left.array(name), right.array(name))
        assert same or name.removesuffix(".scale").removesuffix(".idx").removesuffix(".lut") in lut_matrices(GEOMETRY)
    for name in lut_matrices(GEOMETRY):
        expected = lut.row_scale(sources.checkpoint.tensor(name), name)
        assert np.array_equal(expected, right.array(f"{name}.scale")), name
    assert {"quant": "lut4", "method": "rtn"} == right.metadata
    for name, matrix in rtn["matrices"].items():
        assert matrix["error"]["held_out"]["quantized"] == matrix["error"]["held_out"]["rtn"]
        assert matrix["error"]["held_out"]["rtn"] == gptq["matrices"][name]["error"]["held_out"]["rtn"]


def test_products_are_counted(
    sources: Sources, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No product is formed twice: a matrix has one quadratic form in H and two judgements on held-out rows.

    The outputs of the unquantized matrices come from the forward pass, GPTQ's calibration error from its own loss.
    """
    counts = dict.fromkeys(("quadratic", "squared_outputs", "factorize", "gptq", "held-out quadratic"), 0)

    def count(module: str, name: str, key: str) -> None:
        function = getattr(importlib.import_module(module), name)

        def spy(*args: Any, **rest: Any) -> Any:
            counts[key] += 1
            return function(*args, **rest)

        monkeypatch.setattr(f"{module}.{name}", spy)

    matrix, judge = "forgepack.quantize.matrix", "forgepack.quantize.judge"
    for name in ("quadratic", "squared_outputs", "factorize", "gptq"):
        count(matrix, name, name)
    count(judge, "squared_outputs", "squared_outputs")
    count(judge, "quadratic", "held-out quadratic")
    run(sources, tmp_path / "q", profile)
    luts, int8s = len(lut_matrices(GEOMETRY)), len(int8_matrices(GEOMETRY))
    groups = 1 + 5 * GEOMETRY.layers  # fc; q, k with v, o, gate with up, down
    assert (luts, luts, groups) == (counts["quadratic"], counts["gptq"], counts["factorize"])
    assert 2 * luts + 2 * int8s == counts["squared_outputs"] + counts["held-out quadratic"]
    assert counts["held-out quadratic"] > 0
    assert counts["squared_outputs"] >= 2 * int8s


def test_a_second_file_is_held_out(pair: Path, profile: Profile, made: Path, tmp_path: Path) -> None:
    """With a held-out file every sequence of the first one calibrates."""
    report = run(open_sources(pair, profile, held_out="held-out.npz"), tmp_path / "q", profile)
    inputs = report["inputs"]
    assert ([0, 1, 2], [0], "file") == (
        inputs["calibration"]["sequences"],
        inputs["held_out"]["sequences"],
        inputs["held_out"]["source"],
    )
    split = read_quant(made, GEOMETRY).report.raw["inputs"]
    assert ([0, 1], [2], "split") == (
        split["calibration"]["sequences"],
        split["held_out"]["sequences"],
        split["held_out"]["source"],
    )


def test_an_existing_output_is_refused_without_force(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """An existing folder stays as it was, and is replaced whole with force."""
    out = tmp_path / "q"
    run(sources, out, profile, method="rtn")
    before = contents(out)
    with pytest.raises(UsageError, match="exists"):
        run(sources, out, profile)
    assert before == contents(out)
    run(sources, out, profile, force=True)
    assert read_quant(out, GEOMETRY).report.method == "gptq"


def test_a_stopped_run_goes_on_and_ends_in_the_same_bytes(
    sources: Sources, profile: Profile, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after any matrix, the next run computes no finished matrix again and gives the same bytes."""
    total = len(lut_matrices(GEOMETRY)) + len(int8_matrices(GEOMETRY))

    for stop_after in (1, 9, total):
        out = tmp_path / f"q{stop_after}"

        def stop(event: Progress, limit: int = stop_after) -> None:
            if event.done == limit:
                raise Stopped

        with pytest.raises(Stopped):
            quantize(sources, out, profile=profile, options=Options(), progress=stop)
        assert not out.exists()
        loaded: list[str] = []
        fit = lut.fit_lut4

        def spy(*args: Any, where: str, fit: Any = fit, loaded: list[str] = loaded, **rest: Any) -> Any:
            loaded.append(where)
            return fit(*args, where=where, **rest)

        monkeypatch.setattr("forgepack.quantize.matrix.fit_lut4", spy)
        run(sources, out, profile)
        monkeypatch.undo()
        assert contents(made) == contents(out)
        assert len(lut_matrices(GEOMETRY)) > len(loaded)


def test_work_of_another_recipe_is_dropped(sources: Sources, profile: Profile, made: Path, tmp_path: Path) -> None:
    """Parts of a run with another mask scale are not taken over."""

    def stop(event: Progress) -> None:
        if event.done == 5:
            raise Stopped

    out = tmp_path / "q"
    with pytest.raises(Stopped):
        quantize(sources, out, profile=profile, options=Options(mask_scale=0.5), progress=stop)
    run(sources, out, profile)
    assert contents(made) == contents(out)


def test_mask_scales_are_recorded_apart(sources: Sources, profile: Profile, made: Path, tmp_path: Path) -> None:
    """Calibrated at one scale and deployed at another: both stand in the report, and the weights differ."""
    plain = read_quant(made, GEOMETRY).report.raw
    mixed = run(sources, tmp_path / "b", profile, mask_scale=1.0, deployed_mask_scale=0.7)
    assert {"calibration": 1.0, "deployment": 0.7} == mixed["recipe"]["mask_scale"]
    assert plain["output"]["sha256"] != mixed["output"]["sha256"]


def test_weights_that_folds_make_subnormal_are_counted(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Rows of o_proj under 9.8e-4 and of down_proj under 2.5e-4 are counted; others of that size are not."""
    weights = make_weights()
    small = {"layers.0.self_attn.o_proj.weight": 6e-4, "layers.0.mlp.down_proj.weight": 1.5e-4}
    for name, size in (*small.items(), ("layers.0.self_attn.q_proj.weight", 6e-4)):
        weights[name][:3] = size
    shutil.copytree(pair / "target", tmp_path / "target")
    write_checkpoint(tmp_path / "checkpoint", weights)
    shutil.copy(pair / "unbound.npz", tmp_path)
    report = run(open_sources(tmp_path, profile, traces="unbound.npz"), tmp_path / "q", profile)
    folds = {name: m["folds"]["scale"]["subnormal"] for name, m in report["matrices"].items() if "folds" in m}
    assert dict.fromkeys(small, 3) == {name: count for name, count in folds.items() if count}


def test_memory_of_the_forward_pass_holds_one_layer(
    sources: Sources, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers are streamed: no matrix of another layer is loaded between a layer's first and last one."""
    order: list[str] = []
    tensor = type(sources.checkpoint).tensor

    def spy(self: Any, name: str) -> Any:
        order.append(name)
        return tensor(self, name)

    monkeypatch.setattr(type(sources.checkpoint), "tensor", spy)
    run(sources, tmp_path / "q", profile)
    layers = [int(name.split(".")[1]) for name in order if name.startswith("layers.")]
    assert sorted(layers) == layers
    loads = {name: order.count(name) for name in lut_matrices(GEOMETRY)}
    assert max(loads.values()) <= 4, loads


def test_no_path_of_the_machine_is_written(sources: Sources, made: Path) -> None:
    """Neither file names a folder of the machine it was made on."""
    for data in contents(made).values():
        assert str(made.parent).encode() not in data
        assert str(sources.checkpoint.root).encode() not in data
