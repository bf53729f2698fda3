"""Core ML packages read: functions, states, forms of weights, head; damage told and never raised."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts import coreml_proto
from forgepack.artifacts.coreml_facts import CoreMlModel, told_method
from forgepack.artifacts.coreml_model import read_coreml
from forgepack.artifacts.mil_blob import read_blob_file
from forgepack.artifacts.mlpackage import coreml_parts
from tests.artifacts.coreml_builder import build_packages

WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"
MODEL = "Data/com.apple.CoreML/model.mlmodel"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_packages(tmp_path_factory)


@pytest.fixture
def single(packages: dict[str, Path]) -> Path:
    return packages["single"]


@pytest.fixture
def copy(single: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(single, tmp_path / "copy.mlpackage"))


def codes(model: CoreMlModel) -> set[str]:
    return {damage.code for damage in model.damage}


def test_a_package_of_one_function(single: Path) -> None:
    """Its function is main; 4-bit table, int8 matrix, ports and metadata are told."""
    found = read_coreml(single)
    assert ("package", "mlProgram", 9, ()) == (found.kind, found.model_type, found.version, found.damage)
    (main,) = found.functions
    assert ("main", "feat", "F16", (1, 16, 1, 8)) == (
        main.name,
        main.inputs[0].name,
        main.inputs[0].dtype,
        main.inputs[0].shape,
    )
    assert ["logits"] == [port.name for port in main.outputs]
    assert ({4: 1}, {8: 1}, True) == (found.lut_bits(), found.affine_bits(), found.head)
    assert 2 == found.operations["conv"]
    assert ("gptq", "userDefined: policy") == told_method({"userDefined": found.metadata})
    assert found.weight_bytes == (single / WEIGHTS).stat().st_size


def test_a_package_of_two_functions(packages: dict[str, Path]) -> None:
    """Both functions in the description's order; shared matrices count once; draft has the head."""
    found = read_coreml(packages["double"])
    assert ["draft", "ctx64"] == [function.name for function in found.functions]
    assert ("draft", {4: 1}, {8: 1}) == (found.default_function, found.lut_bits(), found.affine_bits())
    assert 2 == found.shared_weights()
    assert found.head


def test_a_headless_package(packages: dict[str, Path]) -> None:
    """Without an output called logits there is no head."""
    assert read_coreml(packages["headless"]).head is False


def test_states_are_told(packages: dict[str, Path]) -> None:
    """A function that keeps a state names it with type and shape."""
    (main,) = read_coreml(packages["stateful"]).functions
    assert [("cache", "F16", (1, 8))] == [(p.name, p.dtype, p.shape) for p in main.states]


def test_indices_read_back_exactly(single: Path) -> None:
    """The packed 4-bit indices in weight.bin are those that the builder was given."""
    found = read_coreml(single)
    offset = next(w.offset for w in found.weights if w.form == "lut")
    blobs = read_blob_file(single / WEIGHTS)
    assert offset is not None
    record = blobs.records[offset]
    expected = np.random.default_rng(0).integers(0, 16, (32, 16, 1, 1)).astype(np.uint8)
    assert ("U4", 512) == (record.dtype, record.elements)
    np.testing.assert_array_equal(expected.reshape(-1), blobs.indices(record))


@pytest.mark.parametrize("name", ["weights/weight.bin", "model.mlmodel"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    """The manifest or the program names a file that is not there."""
    (copy / "Data/com.apple.CoreML" / name).unlink()
    found = read_coreml(copy)
    assert "manifest-missing-item" in codes(found)
    assert any(name.rsplit("/", maxsplit=1)[-1] in damage.where for damage in found.damage)


@pytest.mark.parametrize("name", [WEIGHTS, MODEL])
def test_an_empty_file_is_named(copy: Path, name: str) -> None:
    """A file of no bytes is damage of its own kind."""
    (copy / name).write_bytes(b"")
    assert "zero-length" in codes(read_coreml(copy))


@pytest.mark.parametrize("path", ["../../../etc/hosts", "/etc/hosts", "a\\b", 7, None])
def test_paths_that_lead_outside_are_not_followed(copy: Path, path: object) -> None:
    """An item's path is used only if it lies below the package."""
    manifest = json.loads((copy / "Manifest.json").read_text())
    for item in manifest["itemInfoEntries"].values():
        item["path"] = path
    (copy / "Manifest.json").write_text(json.dumps(manifest))
    found = read_coreml(copy)
    assert "coreml-manifest" in codes(found)
    assert ["main"] == [function.name for function in found.functions], "the usual place is still read"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"itemInfoEntries": 3}', '{"itemInfoEntries": {"a": 1}}', "{}"])
def test_a_broken_manifest_is_told(copy: Path, text: str) -> None:
    """Whatever the manifest holds, the program is still looked for where it always lies."""
    (copy / "Manifest.json").write_text(text)
    found = read_coreml(copy)
    assert "coreml-manifest" in codes(found)
    assert found.functions


def test_damaged_bytes_never_raise(single: Path, tmp_path: Path) -> None:
    """Cut, flipped and overwritten programs and weights end in a value, with or without damage."""
    rng = random.Random(5)
    for number in range(120):
        root = tmp_path / f"{number}.mlpackage"
        shutil.copytree(single, root)
        victim = root / (MODEL if number % 2 else WEIGHTS)
        data = bytearray(victim.read_bytes())
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        victim.write_bytes(bytes(data[: rng.randrange(len(data) + 1)]) if number % 3 == 0 else bytes(data))
        found = read_coreml(root)
        assert isinstance(found, CoreMlModel)
        found.lut_bits()
        found.shared_weights()
        shutil.rmtree(root)


def test_a_truncated_weights_file_is_told(copy: Path) -> None:
    """A record that reaches past the end ends the walk."""
    data = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(data[: len(data) // 2])
    found = read_coreml(copy)
    assert "coreml-weights" in codes(found)
    assert any("outside the file" in damage.what or "truncated" in damage.what for damage in found.damage)


def test_odd_files_are_told(tmp_path: Path) -> None:
    """An empty folder, a folder of another kind and text in a model's place are no models, and no crash."""
    (tmp_path / "empty.mlpackage").mkdir()
    assert read_coreml(tmp_path / "empty.mlpackage").damage
    (tmp_path / "text.mlmodel").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert read_coreml(tmp_path / "text.mlmodel").damage
    (tmp_path / "blank.mlmodel").write_bytes(b"\x08\x09")
    found = read_coreml(tmp_path / "blank.mlmodel")
    assert ("none", 9, {"coreml-model"}) == (found.model_type, found.version, codes(found))


def test_without_coremltools_it_is_said(single: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and sizes are still told, and why nothing of the program is."""
    monkeypatch.setattr(coreml_proto, "NEEDED", "coremltools_that_is_not_there")
    found = read_coreml(single)
    assert "is not installed" in (found.unread or "")
    assert ((), ()) == (found.functions, found.damage)
    assert found.weight_bytes > 0


def test_the_messages_load_without_coremltools_itself() -> None:
    """They load alone, and coremltools still imports and works after them in the same process."""
    code = (
        "import sys, logging\n"
        "from forgepack.artifacts.coreml_proto import load_messages\n"
        "messages = load_messages()\n"
        "assert messages is load_messages()\n"
        "assert 'coremltools' not in sys.modules\n"
        "logging.getLogger('coremltools').setLevel(logging.ERROR)\n"
        "from coremltools.proto import Model_pb2\n"
        "one = Model_pb2.Model(specificationVersion=7)\n"
        "two = messages.Model()\n"
        "two.ParseFromString(one.SerializeToString())\n"
        "assert two.specificationVersion == 7\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


BLOB = 'BLOBFILE(path = string("@model_path/weights/weight.bin"), offset = uint64({}))'
LUT = (
    "tensor<fp16, [32, 64, 1, 1]> w = constexpr_lut_to_dense("
    f"indices = tensor<uint4, [32, 64, 1, 1]>({BLOB.format(64)}), "
    f'lut = tensor<fp16, [1, 1, 1, 1, 16, 1]>({BLOB.format(1216)}))[name = string("w")];'
)
BUILD = '{{"coremlc-version", "3500.1"}, {"coremltools-version", "9.0"}}'
MIL = f"""program(1.3)
[buildInfo = dict<string, string>({BUILD})]
{{
    func draft<ios18>(tensor<fp16, [1, 64, 1, 8]> feat, state<tensor<fp16, [1, 8]>> cache) {{
            tensor<uint4, [32, 64, 1, 1]> n = const()[name = string("n"), val = tensor<uint4, [1]>([0])];
            {LUT}
            tensor<fp16, [1, 32, 1, 8]> logits = conv(weight = w, x = feat)[name = string("logits")];
        }} -> (logits);
    func ctx64<ios18>(tensor<fp16, [1, 64, 1, 64]> feat) {{
            {LUT}
            tensor<fp16, [1, 32, 1, 64]> k = conv(weight = w, x = feat)[name = string("k")];
        }} -> (k);
}}
"""


def write_compiled(root: Path, text: str = MIL) -> Path:
    """Write a compiled model by the public description of its files: no compiler runs here."""
    (root / "weights").mkdir(parents=True)
    (root / "coremldata.bin").write_bytes(b"\x00" * 8)
    (root / "model.mil").write_text(text)
    (root / "metadata.json").write_text(
        json.dumps([{"specificationVersion": 9, "userDefinedMetadata": {"quant": "lut4 rtn"}}])
    )
    return root


def test_a_compiled_model_by_its_text(tmp_path: Path) -> None:
    """Functions, states, tables and metadata are read from model.mil and metadata.json."""
    found = read_coreml(write_compiled(tmp_path / "m.mlmodelc"))
    assert ("compiled", 9, {"quant": "lut4 rtn"}) == (found.kind, found.version, found.metadata)
    draft, ctx = found.functions
    assert ("draft", ["feat"], ["cache"], [("logits", (1, 32, 1, 8))]) == (
        draft.name,
        [p.name for p in draft.inputs],
        [p.name for p in draft.states],
        [(p.name, p.shape) for p in draft.outputs],
    )
    assert ["k"] == [p.name for p in ctx.outputs]
    assert ({4: 1}, 1, True) == (found.lut_bits(), found.shared_weights(), found.head)
    assert {"constexpr_lut_to_dense": 2, "conv": 2} == found.operations
    assert ("rtn", "m: quant") == told_method({"m": found.metadata})


def test_a_compiled_model_of_nonsense(tmp_path: Path) -> None:
    """Any text, and none, ends in damage."""
    for number, text in enumerate(["", "}" * 1000, "func " * 5000, "func a<b>(" + "(" * 9999, "\x00\xff"]):
        found = read_coreml(write_compiled(tmp_path / f"{number}.mlmodelc", text))
        assert codes(found) & {"zero-length", "coreml-model"}
    (tmp_path / "0.mlmodelc/model.mil").unlink()
    assert "manifest-missing-item" in codes(read_coreml(tmp_path / "0.mlmodelc"))


def test_the_method_is_told_only_where_it_stands() -> None:
    """Words that hold rtn by chance do not count."""
    assert told_method({"m": {"a": "partner", "b": "northern"}}) is None
    assert ("rtn", "m: policy") == told_method({"m": {"policy": "LUT4-RTN"}})
    assert ("gptq", "m: variant") == told_method({"m": {"variant": "lut4_gptq", "z": 1}})


def test_parts_of_a_tree_that_belong_to_core_ml() -> None:
    """A suffix or a mark at any depth names the part at the top."""
    paths = ["a.mlpackage", "b/c/X.MLModelC", "d/Data/com.apple.CoreML", "e/model.mil", "f/readme.md", "g"]
    assert ("a.mlpackage", "b", "d", "e") == coreml_parts(paths)
