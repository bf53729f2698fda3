"""The command diff: what differs, by how much, and exit codes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.cli.main import run
from forgepack.schema_check import schema_faults
from tests.artifacts.coreml_builder import build_packages
from tests.cli.quantized import build_quantized
from tests.synthetic import write_tensors


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a synthetic pair with two quantizations."""
    return build_quantized(tmp_path_factory.mktemp("pair"))


Diff = Callable[..., dict[str, Any]]


@pytest.fixture
def diff(capfd: pytest.CaptureFixture[str]) -> Diff:
    """Return a function that runs the command and returns its JSON, which must fit its schema and the exit code."""

    def compare(left: Path, right: Path) -> dict[str, Any]:
        capfd.readouterr()
        code = run(["diff", str(left), str(right), "--json"])
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        assert () == schema_faults(found, "diff")
        assert code == (0 if found["equal"] else 1)
        assert found["equal"] == (not found["differences"])
        return found

    return compare


def places(found: dict[str, Any], kind: str) -> list[str]:
    return [one["place"] for one in found["differences"] if one["kind"] == kind]


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_equal_things_are_equal(pair: Path, tmp_path: Path, diff: Diff) -> None:
    """A copy of a folder, and of a file, differs in nothing; the text says so."""
    for name in ("checkpoint", "gptq", "target"):
        assert diff(pair / name, Path(shutil.copytree(pair / name, tmp_path / name)))["equal"]
    assert diff(pair / "bound.npz", pair / "bound.npz")["equal"]
    assert run(["diff", str(pair / "gptq"), str(pair / "gptq")]) == 0


def test_two_quantizations_differ_by_matrices(pair: Path, diff: Diff) -> None:
    """Each matrix by max and RMS once dequantized, each tensor as it is stored, and the reports by fields."""
    found = diff(pair / "gptq", pair / "rtn")
    by_place = {one["place"]: one for one in found["differences"] if one["kind"] == "matrix"}
    amount = by_place["fc.weight"]["amount"]
    files = [read_safetensors(pair / name / "drafter_quant.safetensors") for name in ("gptq", "rtn")]
    dense = [
        np.asarray(f.array("fc.weight.lut"), np.float64)[:, 0][f.array("fc.weight.idx")]
        * np.asarray(f.array("fc.weight.scale"), np.float64)[:, None]
        for f in files
    ]
    gap = dense[0] - dense[1]
    assert amount["max"] == pytest.approx(np.abs(gap).max(), rel=1e-5)
    assert amount["rms"] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-5)
    assert amount["relative"] == pytest.approx(np.sqrt((gap**2).sum() / (dense[0] ** 2).sum()), rel=1e-5)
    assert (gap.size, int((gap != 0).sum())) == (amount["elements"], amount["differing"])
    assert found["rules"] is None
    assert "fc.weight.idx" in places(found, "values")
    method = next(one for one in found["differences"] if one["place"] == "method")
    assert ("gptq", "rtn", []) == (method["left"], method["right"], method["rules"])


def test_tensors_by_how_much(tmp_path: Path, diff: Diff) -> None:
    """Values by max and RMS, NaN apart; forms and names as such."""
    ones = np.ones((4, 3), np.float32)
    changed = ones.copy()
    changed[1, 2], changed[0, 0] = 3.0, np.nan
    left: dict[str, Any] = {"a": ones, "b": ones, "c": ones.astype(np.float16), "same": ones}
    right: dict[str, Any] = {"a": changed, "b": ones.reshape(3, 4), "d": ones.astype(np.float16), "same": ones}
    paths = [write_tensors(tmp_path / f"{n}.safetensors", t) for n, t in (("l", left), ("r", right))]
    found = diff(*paths)
    assert (["a"], ["b", "c", "d"]) == (places(found, "values"), places(found, "tensor"))
    amount = next(one["amount"] for one in found["differences"] if one["place"] == "a")
    assert (2, 12, 2.0, 1) == (amount["differing"], amount["elements"], amount["max"], amount["unmatched"])
    assert amount["rms"] == pytest.approx(np.sqrt(4 / 11))


def test_equal_nans_are_equal(tmp_path: Path, diff: Diff) -> None:
    """The same bits are the same values; a zero left side has no scale."""
    values = np.array([np.nan, 0.0], np.float32)
    left = write_tensors(tmp_path / "l.safetensors", {"a": values, "z": np.zeros(3, np.float32)})
    right = write_tensors(tmp_path / "r.safetensors", {"a": values, "z": np.ones(3, np.float32)})
    found = diff(left, right)
    assert ["z"] == places(found, "values")
    assert "relative" not in found["differences"][0]["amount"]


def test_taps_by_permutation(tmp_path: Path, diff: Diff) -> None:
    """The same ids in another order are told as the permutation, others as what happened to them."""
    config = {"architectures": ["DFlash2DraftModel"], "dflash_config": {"target_layer_ids": [1, 3, 5]}}
    left = write(tmp_path / "left.json", config)
    for taps, words in (
        ([5, 1, 3], "[2, 0, 1]"),
        ([2, 4, 6], "+1"),
        ([1, 3, 3], "twice"),
        ([1, 3], "2 ids"),
        ([1, 3, 6], "place 2"),
    ):
        right = write(tmp_path / "right.json", config | {"dflash_config": {"target_layer_ids": taps}})
        (one,) = diff(left, right)["differences"]
        assert "taps" == one["kind"]
        assert words in one["note"]


def test_tokenizers_by_the_first_id(pair: Path, tmp_path: Path, diff: Diff) -> None:
    """Two ids exchanged are told by the first of them; other spacing is no other tokenizer."""
    source = pair / "target/model/tokenizer.json"
    raw = json.loads(source.read_text())
    folders = [tmp_path / name for name in ("same", "other")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "tokenizer.json").write_text(json.dumps(raw, indent=7))
    (one,) = diff(source, folders[0] / "tokenizer.json")["differences"]
    assert ("bytes", True) == (one["kind"], "written otherwise" in one["note"])
    names = sorted(raw["model"]["vocab"], key=lambda name: raw["model"]["vocab"][name])
    vocab = raw["model"]["vocab"]
    vocab[names[3]], vocab[names[5]] = vocab[names[5]], vocab[names[3]]
    (folders[1] / "tokenizer.json").write_text(json.dumps(raw))
    (one,) = diff(source, folders[1] / "tokenizer.json")["differences"]
    first = min(vocab[names[3]], vocab[names[5]])
    assert ("tokens", f"id {first}") == (one["kind"], one["place"])
    assert "2 ids" in one["note"]


def test_json_by_its_leaves(tmp_path: Path, diff: Diff) -> None:
    """Types count, lists of named objects are paired by name, and what one side lacks is nothing."""
    left = {
        "a": 1,
        "b": {"c": True},
        "gone": "nothing",
        "files": [{"path": "x", "n": 1}, {"path": "y", "n": 2}],
        "list": [1, 2],
    }
    right = {"a": 1.0, "b": {"c": 1}, "files": [{"path": "y", "n": 3}, {"path": "x", "n": 1}], "list": [1, 3]}
    found = diff(write(tmp_path / "l.json", left), write(tmp_path / "r.json", right | {"new": None}))
    sides = {one["place"]: (one["left"], one["right"]) for one in found["differences"]}
    assert {"a", "b.c", "gone", "files (order)", "files[y].n", "list", "new"} == set(sides)
    assert ("2", "3") == sides["files[y].n"]
    assert (None, "null") == sides["new"]
    assert ("nothing", None) == sides["gone"]


def test_other_spacing_is_other_bytes(tmp_path: Path, diff: Diff) -> None:
    """The same JSON content in other bytes is a difference of bytes alone."""
    (tmp_path / "l.json").write_text('{"a": 1}')
    (tmp_path / "r.json").write_text('{"a":1}')
    (one,) = diff(tmp_path / "l.json", tmp_path / "r.json")["differences"]
    assert ("bytes", "the same content in other bytes") == (one["kind"], one["note"])


def test_folders_file_by_file(pair: Path, tmp_path: Path, diff: Diff) -> None:
    """Files that one side lacks, links, and what a file holds."""
    copy = Path(shutil.copytree(pair / "checkpoint", tmp_path / "c"))
    (copy / "NOTICE").unlink()
    (copy / "NOTICE").symlink_to("LICENSE")
    (copy / "extra.bin").write_bytes(b"\x00\x01")
    (copy / "LICENSE").write_text("another licence")
    found = diff(pair / "checkpoint", copy)
    kinds = {one["file"]: one["kind"] for one in found["differences"]}
    assert {"LICENSE": "text", "NOTICE": "file", "extra.bin": "file"} == kinds
    notice = next(one for one in found["differences"] if one["file"] == "NOTICE")
    assert "a link to LICENSE" == notice["right"]


def test_texts_by_their_first_line(tmp_path: Path, diff: Diff) -> None:
    """The first line that differs and how many there are; other line ends are told as such."""
    texts = {
        "a": b"one\ntwo\nthree\n",
        "b": b"one\n2\nthree\n",
        "longer": b"one\ntwo\nthree\nfour\n",
        "crlf": b"one\r\ntwo\r\nthree\r\n",
    }
    for name, data in texts.items():
        (tmp_path / f"{name}.txt").write_bytes(data)
    told = {}
    for name in ("b", "longer", "crlf"):
        (one,) = diff(tmp_path / "a.txt", tmp_path / f"{name}.txt")["differences"]
        told[name] = (one["kind"], one["place"], one["note"])
    assert ("text", "line 2", "the first line that differs, of 3 and 3") == told["b"]
    assert ("text", "line 4", "the first line that differs, of 3 and 4") == told["longer"]
    assert ("bytes", "", "the same lines with other line ends") == told["crlf"]


def test_two_kinds_of_folder_are_no_list_of_files(pair: Path, diff: Diff) -> None:
    """What each side is says all."""
    found = diff(pair / "gptq", pair / "checkpoint")
    (one,) = found["differences"]
    assert ("kind", found["left"]["kind"], found["right"]["kind"]) == (one["kind"], one["left"], one["right"])


def test_traces_and_arrays(pair: Path, tmp_path: Path, diff: Diff) -> None:
    """Archives and arrays are compared array by array."""
    found = diff(pair / "bound.npz", pair / "unbound.npz")
    assert "forgepack_identity" in places(found, "tensor")
    for name, value in (("l", 1.0), ("r", 1.5)):
        np.save(tmp_path / f"{name}.npy", np.full((3, 2), value, np.float16))
    (one,) = diff(tmp_path / "l.npy", tmp_path / "r.npy")["differences"]
    assert (0.5, 0.5, 6) == (one["amount"]["max"], one["amount"]["rms"], one["amount"]["differing"])


def test_core_ml_packages_by_content(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, diff: Diff) -> None:
    """Functions, outputs and weights are told; random names in a manifest are no difference."""
    packages = build_packages(tmp_path_factory)
    copy = Path(shutil.copytree(packages["single"], tmp_path / "copy.mlpackage"))
    manifest = json.loads((copy / "Manifest.json").read_text())
    entries = {f"X{key}": item for key, item in manifest["itemInfoEntries"].items()}
    root = f"X{manifest['rootModelIdentifier']}"
    write(copy / "Manifest.json", manifest | {"itemInfoEntries": entries, "rootModelIdentifier": root})
    assert diff(packages["single"], copy)["equal"]
    found = diff(packages["single"], packages["headless"])
    assert {"functions.main.outputs.logits", "functions.main.outputs.hidden"} <= set(places(found, "field"))
    assert not any(one["rules"] for one in found["differences"])
    assert not diff(packages["single"], packages["double"])["equal"]


@pytest.mark.parametrize("data", [b"", b"{", b"\x00" * 40, b"version https://git-lfs.github.com/spec/v1\n"])
def test_damage_is_a_difference_not_a_failure(pair: Path, tmp_path: Path, diff: Diff, data: bytes) -> None:
    """Whatever stands in place of a file, the others are still compared."""
    copy = Path(shutil.copytree(pair / "gptq", tmp_path / "q"))
    for name in ("drafter_quant.safetensors", "report.json"):
        (copy / name).write_bytes(data)
    found = diff(pair / "gptq", copy)
    assert {"drafter_quant.safetensors", "report.json"} == {one["file"] for one in found["differences"]}


def test_kinds_that_differ(pair: Path, diff: Diff) -> None:
    """Things of two kinds differ by that first."""
    found = diff(pair / "gptq", pair / "checkpoint")
    first = found["differences"][0]
    assert ("kind", "quant", "checkpoint") == (first["kind"], first["left"], first["right"])
    assert ["kind"] == [one["kind"] for one in diff(pair / "gptq", pair / "bound.npz")["differences"]]


def test_exit_codes(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """2 for a path that does not exist, 4 for one that may not be read."""
    assert run(["diff", str(pair / "gptq"), str(tmp_path / "none")]) == 2
    assert run(["diff", str(pair / "gptq")]) == 2
    if os.geteuid():
        locked = write(tmp_path / "locked.json", {})
        locked.chmod(0)
        assert run(["diff", str(locked), str(pair / "profile.json")]) == 4
    capfd.readouterr()
    assert run(["diff", str(pair / "gptq"), str(pair / "rtn")]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert any("more: -v lists all" in line for line in lines)
    assert " differences: " in lines[-1]


def test_half_precision_is_compared_in_full(tmp_path: Path, diff: Diff) -> None:
    """BF16 values are widened before they are subtracted."""
    values = np.array([256.0, 1.0]).astype(ml_dtypes.bfloat16)
    left = write_tensors(tmp_path / "l.safetensors", {"a": values})
    right = write_tensors(tmp_path / "r.safetensors", {"a": np.array([258.0, 1.0]).astype(ml_dtypes.bfloat16)})
    assert 2.0 == diff(left, right)["differences"][0]["amount"]["max"]
