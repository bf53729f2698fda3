"""Turn a loaded module into an AssetProgram. Runs in a child: the module may come from a damaged asset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.canonical import sha256_hex
from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.bindings import RawModule
from forgepack.coreai_backend.constants import BITS, payload_bytes
from forgepack.coreai_backend.program import (
    INLINE_BYTES,
    TRANSIENT,
    AssetProgram,
    Constant,
    FunctionTrace,
    Operand,
    Operation,
    Port,
)
from forgepack.errors import CorruptError

GRAPH = "coreai.graph"
CONSTANT = "coreai.constant"
MODULE = "builtin.module"
_PORTS = {"arg_attrs": "inputs", "res_attrs": "outputs"}
# What the digest of the structure leaves out; the declaration holds it.
_SIGNATURE = {"sym_name", "function_type", "param_decls", *_PORTS}
_RESOURCE = re.compile(r'^dense_resource<(?:"((?:[^"\\]|\\.)*)"|([^>]*))>')
_MAX_ATTRIBUTE = 200


class ProgramReader:
    """Reads a module once; afterwards ``payload`` fetches the bytes of any constant by its index.

    ``digests`` false leaves the content of named constants unread, for a program of placeholders. ``where`` is the
    asset that errors name. ``longest`` bounds the length of any buffer: an asset's is its file's size; what was
    authored here has none to fear. Raises CorruptError (``buffer-length``) for a constant whose buffer is shorter or
    longer than its type.
    """

    def __init__(self, raw: RawModule, *, digests: bool = True, where: str = "", longest: int = 0) -> None:
        self._raw = raw
        self._digests = digests
        self._where = where
        self._longest = longest
        self._buffer = np.empty(0, np.uint8)
        self._constants: list[Constant] = []
        self._operations: list[Any] = []
        self._known: dict[tuple[Any, ...], int] = {}
        functions, foreign = [], []
        for operation in raw.module.body.operations:
            if operation.operation.name == GRAPH:
                functions.append(self._function(operation))
            else:
                foreign.append(operation.operation.name)
        self.program = AssetProgram(
            functions=tuple(functions),
            constants=tuple(self._constants),
            foreign=tuple(sorted(foreign)),
            declaration=_attributes(raw.module.operation, set()),
        )

    def payload(self, index: int) -> npt.NDArray[np.uint8]:
        """Return the packed bytes of constant ``index``, which stay until the next are fetched."""
        return self._fetch(self._operations[index], self._constants[index].nbytes)

    def _fetch(self, operation: Any, size: int) -> npt.NDArray[np.uint8]:
        """Return a constant's bytes in the one buffer, which is kept: fresh memory takes longest.

        Core AI copies a constant's whole buffer, whatever its type says, so ours has room for the longest that there
        can be; what is not touched of it costs nothing.
        """
        room = max(size, self._longest) + bindings.GUARD
        if room > self._buffer.size:
            self._buffer = np.empty(0, np.uint8)  # so that not both are in memory
            self._buffer = np.empty(room, np.uint8)
        found = bindings.copy_constant(operation, self._buffer, size)
        if found != size:
            raise CorruptError(
                "a constant's buffer is not as long as its type",
                where=f"{self._where}: {_label(operation)}",
                expected=f"{size} bytes for {operation.results[0].type}",
                found=f"{found} bytes" if found < size else "more",
                code="buffer-length",
            )
        return self._buffer[:size]

    def _function(self, graph: Any) -> FunctionTrace:
        block = graph.operation.regions[0].blocks[0]
        kind = graph.operation.attributes["function_type"].value
        places: dict[Any, Operand] = {
            value: Operand(kind="argument", index=n) for n, value in enumerate(block.arguments)
        }
        operations: list[Operation] = []
        for operation in _flatten(block):
            self._enter(operation, places, operations)
        return FunctionTrace(
            name=bindings.symbol_name(graph.operation),
            inputs=_ports(graph, "arg_attrs", kind.inputs),
            outputs=_ports(graph, "res_attrs", kind.results),
            attributes=_attributes(graph.operation, {*_SIGNATURE, *_transient(graph.operation)}),
            operations=tuple(operations),
            declaration=tuple(_declaration(graph.operation, kind)),
        )

    def _enter(self, operation: Any, places: dict[Any, Operand], operations: list[Operation]) -> None:
        if operation.name == CONSTANT:
            places[operation.results[0]] = Operand(kind="constant", index=self._constant(operation))
            return
        for n, value in enumerate(operation.results):
            places[value] = Operand(kind="result", index=len(operations), result=n)
        foreign = Operand(kind="foreign", index=0)
        operations.append(
            Operation(
                name=operation.name,
                operands=tuple(places.get(value, foreign) for value in operation.operands),
                attributes=_attributes(operation, set()),
                results=tuple(str(value.type) for value in operation.results),
            )
        )

    def _constant(self, operation: Any) -> int:
        """Return the index of a constant; a resource that several functions use is read once."""
        dtype, shape = bindings.parse_tensor(operation.results[0].type)
        attribute = operation.attributes["value"]
        name = None
        if bindings.is_resource(attribute):
            match = _RESOURCE.match(str(attribute))
            name = match and (match.group(1) or match.group(2))
        declaration = (("type", str(operation.results[0].type)), *_attributes(operation, {"value"}))
        if name is not None and (name, declaration) in self._known:
            return self._known[name, declaration]
        constant = replace(self._read_constant(operation, name, dtype, shape), declaration=declaration)
        key = (name, declaration) if name else (name, declaration, constant.sha256)
        if key not in self._known:
            self._known[key] = len(self._constants)
            self._constants.append(constant)
            self._operations.append(operation)
        return self._known[key]

    def _read_constant(self, operation: Any, name: str | None, dtype: str, shape: tuple[int, ...]) -> Constant:
        size = payload_bytes(dtype, shape) if dtype in BITS else 0
        if dtype not in BITS or (name is not None and not self._digests):
            return Constant(name=name, dtype=dtype, shape=shape, nbytes=size, sha256=None, data=None)
        payload = self._fetch(operation, size)
        data = payload.tobytes().hex() if size <= INLINE_BYTES else None
        digest = sha256_hex(payload.data)
        return Constant(name=name, dtype=dtype, shape=shape, nbytes=size, sha256=digest, data=data)


def _label(operation: Any) -> str:
    """Return a constant's name in the asset, or its type where its value is stored inline."""
    match = _RESOURCE.match(str(operation.attributes["value"]))
    return f"constant {(match and (match[1] or match[2])) or operation.results[0].type}"


def _flatten(block: Any) -> Iterator[Any]:
    """Yield a block's operations in order, those of nested regions after the one that holds them."""
    for view in block.operations:
        operation = view.operation
        yield operation
        for region in operation.regions:
            for inner in region.blocks:
                yield from _flatten(inner)


def _attributes(operation: Any, skip: set[str]) -> tuple[tuple[str, str], ...]:
    names = sorted(set(bindings.attribute_names(operation)) - skip)
    pairs = [(name, _text(operation.attributes[name])) for name in names]
    nested = len(operation.regions) + len(operation.successors)
    if nested and operation.name not in (GRAPH, MODULE):
        pairs.append(("regions and successors", str(nested)))
    return tuple(pairs)


def _text(attribute: Any) -> str:
    text = str(attribute)
    return text if len(text) <= _MAX_ATTRIBUTE else sha256_hex(text.encode())


def _transient(graph: Any) -> set[str]:
    return {name for name in bindings.attribute_names(graph) if name.startswith(TRANSIENT)}


def _declaration(graph: Any, kind: Any) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of all that an entry point declares beside the attributes that the digest covers."""
    block = graph.regions[0].blocks[0]
    for side, types in (("inputs", kind.inputs), ("outputs", kind.results), ("arguments", block.arguments.types)):
        for number, one in enumerate(types):
            yield f"{side}[{number}]: type", str(one)
    names = set(bindings.attribute_names(graph))
    for key in sorted(names & _PORTS.keys()):
        for number, port in enumerate(graph.attributes[key]):
            yield f"{_PORTS[key]}[{number}]: attributes", _text(port)
    for name in sorted((names & {"param_decls"}) | _transient(graph)):
        yield name, _text(graph.attributes[name])
    yield "blocks", str([len(region.blocks) for region in graph.regions])


def _ports(graph: Any, key: str, kinds: Any) -> tuple[Port, ...]:
    names = bindings.port_names(graph.operation, key)
    ports = []
    for n, kind in enumerate(kinds):
        dtype, shape = bindings.parse_tensor(kind)
        ports.append(Port(name=names[n] if n < len(names) else "", dtype=dtype, shape=shape))
    return tuple(ports)
