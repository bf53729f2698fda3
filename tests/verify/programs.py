"""Programs changed where names, shapes and operations stay: ports, attributes, encodings, buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.child import open_program
from forgepack.coreai_backend.constants import payload_bytes
from tests.verify.sabotage import ASSET, SIDECAR, edit
from tests.verify.test_lineage import record_files

Change = Callable[[dict[str, Any]], None]
_ENCODING = "#coreaix.hw_constraints<Heap, alignments: [1x1x1x1], interleave: [1x1x8]>"


def change_program(asset: Path, change: Change) -> None:
    """Apply ``change`` to an asset's entry points by name, write the program again and its hash."""
    from coreai._compiler.ir import Location

    file = asset / "main.mlirb"
    raw = bindings.load_bytecode(file)
    with raw.context, Location.unknown():
        change(
            {"": raw.module, **{bindings.symbol_name(o.operation): o.operation for o in raw.module.body.operations}}
        )
    bindings.save_bytecode(raw, asset / "changed")
    (asset / "changed").replace(file)
    (asset / "main.hash").write_bytes(hashlib.sha256(file.read_bytes()).digest())


def change_drafter(root: Path, change: Change) -> None:
    """Change the drafter's program and bring every record of the sidecar up to date, as one who re-emits would."""
    change_program(root / ASSET, change)
    record_files(root)
    digest = open_program(root / ASSET / "main.mlirb", where="", digests=False).program.digest
    edit(SIDECAR, lambda s: s["forgepack"]["package"].__setitem__("trace_sha256", digest))(root)


def _operations(graph: Any) -> Iterator[Any]:
    return (view.operation for view in graph.regions[0].blocks[0].operations)


def port_attribute(entry: str, side: str, number: int, name: str, text: str) -> Change:
    """Add an attribute to the dictionary of one port."""

    def change(graphs: dict[str, Any]) -> None:
        from coreai._compiler import ir

        graph = graphs[entry]
        ports = list(graph.attributes[side])
        known = {one.name: one.attr for one in ports[number]}
        ports[number] = ir.DictAttr.get({**known, name: ir.StringAttr.get(text)})
        graph.attributes[side] = ir.ArrayAttr.get(ports)

    return change


def port_encoding(entry: str, number: int) -> Change:
    """Give one input another layout in memory, in the block and in the signature."""

    def change(graphs: dict[str, Any]) -> None:
        from coreai._compiler import ir

        graph = graphs[entry]
        block = graph.regions[0].blocks[0]
        rank = len(block.arguments[number].type.shape)
        text = _ENCODING.replace("1x1x1x1", "x".join("1" * (rank + 1))).replace("1x1x8", "x".join("1" * rank))
        block.arguments[number].set_type(ir.Type.parse(f"{str(block.arguments[number].type)[:-1]}, {text}>"))
        results = list(graph.attributes["function_type"].value.results)
        kind = ir.FunctionType.get(inputs=[value.type for value in block.arguments], results=results)
        graph.attributes["function_type"] = ir.TypeAttr.get(kind)

    return change


def buffer(entry: str, name: str, resize: Callable[[int], int]) -> Change:
    """Give the constants over one named buffer a buffer of another length."""

    def change(graphs: dict[str, Any]) -> None:
        from coreai._compiler import ir

        for one in _operations(graphs[entry]):
            if one.name == "coreai.constant" and str(one.attributes["value"]).startswith(f"dense_resource<{name}>"):
                kind = one.results[0].type
                dtype, shape = bindings.parse_tensor(kind)
                size = resize(payload_bytes(dtype, shape))
                value = ir.DenseResourceElementsAttr.get_from_buffer(np.zeros(size, np.uint8), f"{name}.x", kind, 16)
                one.attributes["value"] = value

    return change


DECLARATIONS: Mapping[str, Change] = {
    "an input delegated under another name": port_attribute(
        "draft", "arg_attrs", 6, "coreai.delegate_mapped_name", "feat"
    ),
    "an output delegated under another name": port_attribute(
        "draft", "res_attrs", 0, "coreai.delegate_mapped_name", "hp"
    ),
    "an input of another memory layout": port_encoding("draft", 7),
    "an input of the prefill entry point of another layout": port_encoding("ctx64", 0),
}
BUFFERS: Mapping[str, Change] = {
    "a constant shorter than its type": buffer("draft", "zeros.row", lambda _: 2),
    "a constant a byte too short": buffer("draft", "norm", lambda size: size - 1),
    "a constant a byte too long": buffer("draft", "norm", lambda size: size + 1),
    "a constant of twice its length": buffer("draft", "norm", lambda size: 2 * size),
}
