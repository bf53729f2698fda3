"""Canaries: each private name of the pinned coreai-core that this tool leans on still is what it was."""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.builder import Program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.program import AssetProgram

NAMES = [
    "coreai.authoring:AIModelAsset.load",
    "coreai.authoring:AIModelAsset.executable",
    "coreai.authoring:AIProgram._from_mlir_module",
    "coreai.authoring:AIProgram._save_bytecode",
    "coreai.authoring:Context()._mlir_context",
    "coreai.authoring:OSVersion.v27",
    "coreai.authoring:Value._from_mlir",
    "coreai.authoring:Value._to_mlir",
    "coreai.authoring.constant:constant",
    "coreai.authoring.graph_builder:GraphOp",
    "coreai._compiler.dialects._coreai_ops_gen:ConstantOp",
    "coreai._compiler.dialects._coreai_ops_gen:OutputOp",
    "coreai._compiler.ir:DenseResourceElementsAttr.get_from_buffer",
    "coreai._compiler.ir:DenseResourceElementsAttr.isinstance",
    "coreai._compiler.ir:F16Type.get",
    "coreai._compiler.ir:F32Type.get",
    "coreai._compiler.ir:InsertionPoint",
    "coreai._compiler.ir:IntegerType.get_signed",
    "coreai._compiler.ir:IntegerType.get_unsigned",
    "coreai._compiler.ir:Location.unknown",
    "coreai._compiler.ir:Module.create",
    "coreai._compiler.ir:RankedTensorType.get",
    "coreai._compiler.passmanager:PassManager.parse",
    "coreai._compiler._mlir_libs._coreaiIR._bindings.compiler:run_pre_compilation_rewrite",
    "coreai._compiler._mlir_libs._coreaiIR._bindings.compiler:load_module_from_bytecode",
    "coreai._compiler._mlir_libs._coreaiIR._bindings.compiler:copy_constant_value_to_array",
    "coreai.runtime:NDArray",
    "coreai._version:PACKAGE_NAME",
    "coreai._version:__version__",
]


@pytest.mark.parametrize("name", NAMES)
def test_private_name_exists(name: str) -> None:
    """The name can be imported from where this tool takes it."""
    importlib.import_module("coreai.authoring")
    module, _, path = name.partition(":")
    # The compiler's bindings are one extension: its inner modules are attributes, not files.
    if "_bindings." in module:
        outer, _, inner = module.rpartition(".")
        value = getattr(importlib.import_module(outer.rpartition(".")[0])._bindings, inner)
    else:
        value = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part.removesuffix("()"))
        value = value() if part.endswith("()") else value
    assert value is not None


def copied(operation: Any, size: int) -> tuple[int, bytes]:
    """Return how many bytes a constant has, and the first ``size`` of them, copied to where others were before."""
    room = np.full(size + 64, 0xAA, np.uint8)
    found = bindings.copy_constant(operation, room, size)
    return found, room[:size].tobytes()


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("dense<3> : tensor<3xui4>", b"\x33\x03"),
        ("dense<[true, false, true]> : tensor<3xi1>", b"\x01\x00\x01"),
        ("dense<1.0> : tensor<2xf16>", b"\x00\x3c\x00\x3c"),
        ("dense<> : tensor<0xf16>", b""),
    ],
)
def test_an_inline_constant_fills_its_payload(text: str, data: bytes) -> None:
    """Bits that a constant does not use are 0, whatever lay in the buffer."""
    from coreai._compiler.dialects._coreai_ops_gen import ConstantOp
    from coreai._compiler.ir import Attribute

    with bindings.authoring():
        assert (len(data), data) == copied(ConstantOp(value=Attribute.parse(text)).operation, len(data))


@pytest.mark.parametrize(("dtype", "count"), [("F16", 12), ("F32", 6), ("U4", 47), ("U4", 48), ("I8", 24)])
@pytest.mark.parametrize("fill", [0, 1, 0xA5, 0xFF])
def test_the_length_of_a_buffer_is_found_whatever_it_holds(dtype: str, count: int, fill: int) -> None:
    """A constant of 24 bytes over fewer or more bytes says so, and leaves what is beyond the room's end alone."""
    from coreai._compiler.dialects._coreai_ops_gen import ConstantOp
    from coreai._compiler.ir import DenseResourceElementsAttr

    with bindings.authoring():
        kind = bindings.tensor_type(dtype, (count,))
        for size in range(1, 49):
            data = np.full(size, fill, np.uint8)
            attribute = DenseResourceElementsAttr.get_from_buffer(data, f"long{size}", kind, alignment=16)
            found, copy = copied(ConstantOp(value=attribute).operation, 24)
            assert min(size, 25) == found
            assert data.tobytes()[:24] == copy[:size]


def test_context_gives_the_compilers_context() -> None:
    """The authoring context wraps the compiler's own, which buffers live in."""
    assert type(bindings.new_context()).__name__ == "Context"


def test_own_writer_leaves_the_files_that_apples_does(tmp_path: Path) -> None:
    """Apple's save_asset writes the same three files, the same metadata keys and the raw digest of the program."""
    import coreai.authoring as ca
    from coreai.runtime import AIModelAssetMetadata

    metadata = AIModelAssetMetadata()
    metadata.author, metadata.license, metadata.model_description = "a", "l", "d"
    metadata.set_custom("k", {"n": 1})
    with bindings.authoring() as raw:
        bindings.insert_function("f", [("x", (2,))], [("y", (2,))], lambda values: [ca.abs_(values[0])])
    ca.AIProgram._from_mlir_module(raw.module).save_asset(tmp_path / "apple.aimodel", metadata)
    folder = tmp_path / "apple.aimodel"
    assert sorted(p.name for p in folder.iterdir()) == ["main.hash", "main.mlirb", "metadata.json"]
    program = (folder / "main.mlirb").read_bytes()
    assert (folder / "main.hash").read_bytes() == hashlib.sha256(program).digest()
    found = json.loads((folder / "metadata.json").read_text())
    del found["creationDate"]
    assert found == {
        "assetVersion": "2.0",
        "author": "a",
        "creatorDefinedMetadata": {"k": {"n": 1}},
        "description": "d",
        "license": "l",
        "producer": bindings.producer(),
    }
    bindings.save_bytecode(raw, tmp_path / "ours.mlirb")
    assert (tmp_path / "ours.mlirb").read_bytes() == program


def test_buffers_are_taken_without_a_check_of_their_length() -> None:
    """Core AI takes a short buffer silently, which is why NamedConstant checks it: the guard is still needed."""
    context = bindings.new_context()
    from coreai._compiler.ir import DenseResourceElementsAttr, Location

    with context, Location.unknown():
        kind = bindings.tensor_type("F16", (8,))
        short = DenseResourceElementsAttr.get_from_buffer(np.zeros(1, np.float16), "short", kind, alignment=16)
    assert "short" in str(short)


def test_packed_indices_come_back_low_nibble_first(tmp_path: Path) -> None:
    """A U4 constant is stored as it was packed, two indices a byte, and its bytes can be read back."""
    packed = np.array([0x10, 0x32], np.uint8)
    constant = NamedConstant(name="idx", dtype="U4", shape=(4, 1, 1, 1), data=packed)
    with bindings.authoring() as raw:

        def body(values: list[bindings.Tensor]) -> list[bindings.Tensor]:
            import coreai.authoring as ca
            from coreai.authoring.constant import constant as inline

            table = inline(np.arange(16, dtype=np.float16).reshape(1, 1, 1, 1, 16, 1))
            indices = bindings.constant_of(bindings.resource(constant))
            dense = ca.lut_to_dense(indices, table, inline(np.array(0, np.int16)))
            ones = np.array([1, 1], np.uint32)
            return [ca.conv2d(values[0], dense, ones, ones, np.array(1, np.uint32))]

        bindings.insert_function("f", [("x", (1, 1, 1, 1))], [("y", (1, 4, 1, 1))], body)
    bindings.save_bytecode(raw, tmp_path / "p.mlirb")
    loaded = bindings.load_bytecode(tmp_path / "p.mlirb")
    graph = loaded.module.body.operations[0].operation
    constants = [o.operation for o in graph.regions[0].blocks[0].operations if o.operation.name == "coreai.constant"]
    indices = next(o for o in constants if bindings.parse_tensor(o.results[0].type)[0] == "U4")
    assert (2, packed.tobytes()) == copied(indices, 2)
    assert bindings.symbol_name(graph) == "f"
    assert bindings.port_names(graph, "arg_attrs") == ["x"]


def test_debug_locations_are_gone(tmp_path: Path) -> None:
    """No file name and no line number of this tool is left in the program."""
    import coreai.authoring as ca

    with bindings.authoring() as raw:
        bindings.insert_function("f", [("x", (2,))], [("y", (2,))], lambda values: [ca.abs_(values[0])])
    bindings.save_bytecode(raw, tmp_path / "p.mlirb")
    program = (tmp_path / "p.mlirb").read_bytes()
    assert b".py" not in program
    assert b"op_id" not in program


@pytest.mark.parametrize(
    ("value", "accepted"), [({"n": [1, 2.5, True, "x", {"k": "v"}]}, True), ({"n": None}, False)]
)
def test_apples_reader_refuses_null_in_custom_metadata(tmp_path: Path, value: object, accepted: bool) -> None:
    """Nested values come back, but null makes the whole asset unreadable: nothing of ours may write one."""
    import coreai.authoring as ca

    folder = tmp_path / "a.aimodel"
    with bindings.authoring() as raw:
        bindings.insert_function("f", [("x", (2,))], [("y", (2,))], lambda values: [ca.abs_(values[0])])
    metadata = AssetMetadata(author="a", licence="l", description="d", custom={"k": value})
    write_asset(Program(raw=raw, trace=AssetProgram(functions=(), constants=())), folder, metadata)
    if accepted:
        found = ca.AIModelAsset.load(folder).metadata
        assert (found.author, found.license, found.model_description) == ("a", "l", "d")
        assert found.creator_defined_metadata == {"k": value}
    else:
        with pytest.raises(RuntimeError, match="Invalid custom metadata"):
            ca.AIModelAsset.load(folder)
