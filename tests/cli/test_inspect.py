"""The command inspect: every kind of file and folder is told, and what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.cli.main import run
from forgepack.miniature.data import find_miniature
from forgepack.release.inspect.kinds import KINDS
from forgepack.resources import schema_path
from forgepack.schema_check import schema_faults
from tests.artifacts.coreml_builder import build_packages
from tests.cli.quantized import build_quantized

Inspect = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a synthetic pair with two quantizations."""
    return build_quantized(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def inspect(capfd: pytest.CaptureFixture[str]) -> Inspect:
    """Return a function that runs the command and returns its JSON, which must fit its schema and the exit code."""

    def look(path: Path, *more: str) -> dict[str, Any]:
        capfd.readouterr()
        code = run(["inspect", str(path), "--json", *more])
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        assert () == schema_faults(found, "inspect")
        assert code == (1 if found["faults"] else 0)
        assert run(["inspect", str(path), *more]) == code
        lines = capfd.readouterr().out.splitlines()
        assert len(lines) <= 40, "one screen"
        assert found["title"] in lines[0]
        return found

    return look


def codes(found: dict[str, Any]) -> set[str]:
    return {fault["code"] for fault in found["faults"]}


def test_the_schema_lists_every_kind() -> None:
    """The kinds that can be told are those that the schema allows."""
    schema = json.loads(schema_path("inspect").read_text())
    assert sorted(KINDS) == schema["properties"]["kind"]["enum"]


def test_parts_of_a_pair(pair: Path, inspect: Inspect) -> None:
    """Checkpoint, QUANT, target and its parts, by kind, identity and what they hold; a known profile is named."""
    profile = ("--profile", str(pair / "profile.json"))
    found = inspect(pair / "checkpoint", *profile)
    assert ("checkpoint", "synthetic", []) == (found["kind"], found["facts"]["profile"], found["faults"])
    assert {"repository", "commit", "lock", "model.safetensors"} <= set(found["identity"])
    found = inspect(pair / "gptq", *profile)
    assert ("quant", "gptq (lut4_gptq)", "synthetic") == (
        found["kind"],
        found["facts"]["method"],
        found["facts"]["profile"],
    )
    found = inspect(pair / "bound.npz", *profile)
    assert ("npz", "recorded traces", 3) == (found["kind"], found["title"], found["facts"]["sequences"])
    assert "to target" in found["facts"]["bound"]
    assert inspect(pair / "unbound.npz", *profile)["facts"]["bound"].startswith("no")
    assert "target" == inspect(pair / "target")["kind"]


def test_the_miniature(inspect: Inspect) -> None:
    """The shipped target, traces and head are known by their profile without being told of it."""
    mini = find_miniature()
    target = inspect(mini.target)
    assert ("target", "mini", []) == (target["kind"], target["facts"]["profile"], target["faults"])
    assert [1, 3, 5, 8, 10] == target["facts"]["taps"]
    kinds = {"coreai": "build", "model": "model", "export/mini_lut4": "export", "coreai/head_T8.aimodel": "asset"}
    for name, kind in kinds.items():
        assert kind == inspect(mini.target / name)["kind"]
    head = inspect(mini.stale_head)
    assert "a safetensors file: a LUT4 output head" == head["title"]
    assert head["identity"]["head, by content"] != target["identity"]["head, by content"]
    assert "mini" == inspect(mini.held_out)["facts"]["profile"]
    assert "a target's embedding table" == inspect(mini.target / "model/embed_tokens_fp16.npy")["title"]
    assert "tokenizer of profile mini" in inspect(mini.target / "model/tokenizer.json")["facts"]["pinned"]


def test_entry_points_of_an_asset_where_asked_for(inspect: Inspect) -> None:
    """--deep reads the program; without it the metadata alone is told."""
    asset = find_miniature().target / "coreai/head_T8.aimodel"
    assert not any(name.startswith("entry") for name in inspect(asset)["facts"])
    assert "logits among them" in inspect(asset, "--deep")["facts"]["entry h8"]


def test_a_checkpoint_that_is_not_what_its_lock_says(pair: Path, tmp_path: Path, inspect: Inspect) -> None:
    """A size that differs shows at once, an edited byte where all bytes are read."""
    copy = Path(shutil.copytree(pair / "checkpoint", tmp_path / "c"))
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert set() == codes(inspect(copy))
    assert {"lock-differs"} == codes(inspect(copy, "--deep"))
    (copy / "LICENSE").write_text("")
    assert {"lock-differs"} == codes(inspect(copy))
    (copy / "checkpoint.lock.json").unlink()
    found = inspect(copy)
    assert (set(), True) == (codes(found), "adopt" in found["facts"]["lock"])


def test_a_file_that_a_profile_knows_to_be_wrong(pair: Path, tmp_path: Path, inspect: Inspect) -> None:
    """A donor is told by its digest, whatever it is called, also by the pointer to it."""
    from forgepack.artifacts.files import hash_file

    weights = pair / "checkpoint/model.safetensors"
    digest = hash_file(weights)[1]
    profile = json.loads((pair / "profile.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(profile | {"known_bad": {digest: "the donor's weights"}}))
    shutil.copyfile(weights, tmp_path / "renamed.bin")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 77\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    for path in (weights, tmp_path / "renamed.bin", tmp_path / "model.safetensors", pair / "checkpoint"):
        found = inspect(path, "--profile", str(tmp_path / "p.json"))
        assert {"known-bad"} == codes(found)
        assert "the donor's weights" in found["faults"][0]["what"]


def test_a_git_lfs_pointer(tmp_path: Path, inspect: Inspect) -> None:
    """It says what it stands for."""
    (tmp_path / "w.safetensors").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 3848817896\n"
    )
    found = inspect(tmp_path / "w.safetensors")
    assert ("lfs-pointer", "ab" * 32, "3848817896") == (
        found["kind"],
        found["identity"]["stands for sha256"],
        found["facts"]["stands for bytes"],
    )


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("empty", b"", "empty"),
        ("page.safetensors", b"<!DOCTYPE html><html>", "html"),
        ("a.gguf", b"GGUF\x03", "gguf"),
        ("a.pt", b"\x80\x02}", "pickle"),
        ("a.zip", b"PK\x03\x04rest", "npz"),
        ("a.gz", b"\x1f\x8b\x08", "gzip"),
        ("main.mlirb", b"ML\xefR\x0d", "program"),
        ("a.txt", "schön".encode(), "text"),
        ("a.bin", b"\x01\x02\x00\x03", "unknown"),
        ("a.json", b"{", "damaged-json"),
        ("a.json", b"\xef\xbb\xbf{}", "damaged-json"),
        ("a.json", b"[1, 2]", "json"),
        ("a.json", b'{"chunks": [], "taps": [], "export": "x"}', "manifest"),
        ("a.json", b'{"quant": "lut4", "policy": "rtn", "size_gb": 1}', "coreml-sidecar"),
        ("a.json", b'{"W": 1, "T": 8, "entries": {}}', "sidecar"),
        ("a.json", b'{"schema": "forgepack.profile/1"}', "profile"),
        ("a.json", b'{"schema": "forgepack.replay/1", "drafters": 3}', "replay-report"),
        ("a.json", b'{"schema": "forgepack.gate_policy/1"}', "gate-policy"),
        ("a.json", b'{"schema": "forgepack.timings/1"}', "timings"),
        ("a.json", b'{"schema": "forgepack.checkpoint-lock/1"}', "checkpoint-lock"),
        ("a.json", b'{"schema": "forgepack.quant_report/1"}', "quant-report"),
        ("a.json", b'{"schema": "forgepack.unheard_of/1"}', "json"),
        ("a.json", b'{"model_type": "qwen3"}', "model-config"),
        ("a.json", b'{"weight_map": {}}', "safetensors-index"),
        ("a.json", b'{"schema_version": 1, "files": [], "drafter": {}}', "release"),
        ("a.json", b'{"model": {"vocab": {}}}', "tokenizer"),
        ("a.json", b'{"assetVersion": "2.0"}', "asset-metadata"),
        ("a.json", b'{"itemInfoEntries": {}}', "mlpackage-manifest"),
        ("a.toml", b"a = 1\n", "toml"),
        ("a.mlmodel", b"\x08\x09", "mlmodel"),
        ("a.safetensors", b"\x04\x00\x00\x00\x00\x00\x00\x00{}  ", "safetensors"),
        ("a.safetensors", b"\xff" * 64, "safetensors"),
        ("a.npy", b"\x93NUMPY\x01\x00", "npy"),
    ],
)
def test_files_of_all_kinds(tmp_path: Path, inspect: Inspect, name: str, data: bytes, kind: str) -> None:
    """Whatever a file holds, its kind is told and nothing fails."""
    (tmp_path / name).write_bytes(data)
    assert kind == inspect(tmp_path / name)["kind"]


def test_folders_of_all_kinds(tmp_path: Path, inspect: Inspect) -> None:
    """Empty and broken folders are told by their marks, with what is missing."""
    marks = {
        "asset": "x.aimodel/main.mlirb",
        "compiled-asset": "x.aimodelc/data",
        "quant": "q/drafter_quant.safetensors",
        "bundle": "b/release.json",
        "drafter-package": "d/y.aimodel/main.mlirb",
        "build": "c/manifest.json",
        "export": "e/lm_head.safetensors",
        "checkpoint": "k/model.safetensors",
        "model": "m/tokenizer.json",
        "hf-model": "h/model.safetensors.index.json",
        "folder": "f/readme.md",
        "mlmodelc": "z.mlmodelc/coremldata.bin",
        "mlpackage": "z.mlpackage/Manifest.json",
    }
    for kind, path in marks.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b"")
        assert kind == inspect(tmp_path / path.split("/", maxsplit=1)[0])["kind"]
    (tmp_path / "t/model").mkdir(parents=True)
    (tmp_path / "t/coreai").mkdir()
    assert "target" == inspect(tmp_path / "t")["kind"]
    (tmp_path / "nothing").mkdir()
    assert "folder" == inspect(tmp_path / "nothing")["kind"]
    os.mkfifo(tmp_path / "pipe")
    assert "special" == inspect(tmp_path / "pipe")["kind"]


def test_a_core_ml_package(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, inspect: Inspect) -> None:
    """Functions, ports, bits, head and method are told, the latter also from a sidecar of the same stem."""
    packages = build_packages(tmp_path_factory)
    found = inspect(packages["double"])
    facts = found["facts"]
    assert "mlpackage" == found["kind"]
    assert "inputs feat F16[1, 16, 1, 8]; outputs logits F16[1, 32, 1, 8]" == facts["function draft (default)"]
    assert ("1 of 4 bits", "1 of 8 bits", "2 constants") == (
        facts["palettized"],
        facts["integers with a scale"],
        facts["shared by functions"],
    )
    assert facts["head"].startswith("yes")
    assert inspect(packages["headless"])["facts"]["head"].startswith("no: headless")
    assert "states cache F16[1, 8]" in inspect(packages["stateful"])["facts"]["function main"]
    assert "gptq, by its metadata: policy" == inspect(packages["single"])["facts"]["method"]
    copy = Path(shutil.copytree(packages["headless"], tmp_path / "d.mlpackage"))
    (tmp_path / "d.json").write_text('{"quant": "lut4", "policy": "rtn", "size_gb": 1}')
    assert "rtn, by d.json: policy" == inspect(copy)["facts"]["method"]


def test_hostile_names_are_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Escapes in a path or a value reach no terminal."""
    path = tmp_path / "x\x1b[31m.json"
    path.write_text('{"model_type": "\\u001b[2J::error::"}')
    assert run(["inspect", str(path)]) == 0
    out = capfd.readouterr().out
    assert "\x1b" not in out
    assert "::error::" not in out


def test_exit_codes(tmp_path: Path, pair: Path) -> None:
    """2 for what is not there, a link that leads nowhere, and an unknown profile; 4 for what may not be read."""
    assert run(["inspect", str(tmp_path / "none")]) == 2
    (tmp_path / "link").symlink_to("nowhere")
    assert run(["inspect", str(tmp_path / "link")]) == 2
    assert run(["inspect", str(pair / "gptq"), "--profile", "no such"]) == 2
    assert run(["inspect", str(pair / "gptq" / "report.json" / "deeper")]) == 2
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0)
        assert run(["inspect", str(tmp_path / "locked")]) == 4


def test_an_array_of_another_form(tmp_path: Path, inspect: Inspect) -> None:
    """Any NumPy array is told by type and shape."""
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4), np.float32))
    assert "float32 (2, 3, 4) C order" == inspect(tmp_path / "a.npy")["facts"]["array"]


LIMITED = {
    "sidecar": ("drafter/dflash2_lut4_gptq.json", 2 << 20, 17 << 20),
    "manifest": ("target/coreai/manifest.json", 2 << 20, 17 << 20),
    "config": ("drafter/config.json", 1 << 19, 2 << 20),
}


@pytest.mark.parametrize("name", LIMITED)
def test_inspect_and_verify_have_one_limit(base: Path, tmp_path: Path, name: str) -> None:
    """A document below its limit is read by both, one over it ends both with 4."""
    file, below, over = LIMITED[name]
    root = Path(shutil.copytree(base, tmp_path / "pair"))
    data = (root / file).read_bytes()
    verify = ["verify", str(root / "drafter"), "--target", str(root / "target"), "--depth", "header"]
    for size, codes in ((below, (0, 0)), (over, (4, 4))):
        (root / file).write_bytes(data + b" " * (size - len(data)))
        found = (
            run(["-q", "inspect", str(root / file)]),
            run(["-q", *verify, "--profile", str(root / "profile.json")]),
        )
        assert codes == (found[0], 0 if found[1] == 1 else found[1])
