"""Turn a loaded module into an AssetProgram. Runs in a child: the module may come from a damaged asset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.canonical import sha256_hex
from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.bindings import RawModule
from forgepack.coreai_backend.constants import BITS, payload_bytes
from forgepack.coreai_backend.program import (
    INLINE_BYTES,
    AssetProgram,
    Constant,
    FunctionTrace,
    Operand,
    Operation,
    Port,
)

GRAPH = "coreai.graph"
CONSTANT = "coreai.constant"
_SIGNATURE = {"sym_name", "function_type", "arg_attrs", "res_attrs", "param_decls"}
_RESOURCE = re.compile(r'^dense_resource<(?:"((?:[^"\\]|\\.)*)"|([^>]*))>')
_MAX_ATTRIBUTE = 200
# A mark of Core AI's optimizer on entry points in memory, which the bytecode does not keep.
_TRANSIENT = "__coreai_"


class ProgramReader:
    """Reads a module once; afterwards ``payload`` fetches the bytes of any constant by its index.

    ``digests`` false leaves the content of named constants unread, for a program of placeholders.
    """

    def __init__(self, raw: RawModule, *, digests: bool = True) -> None:
        self._raw = raw
        self._digests = digests
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
            functions=tuple(functions), constants=tuple(self._constants), foreign=tuple(sorted(foreign))
        )

    def payload(self, index: int) -> npt.NDArray[np.uint8]:
        """Return the packed bytes of constant ``index``, which stay until the next are fetched."""
        return self._fetch(self._operations[index], self._constants[index].nbytes)

    def _fetch(self, operation: Any, size: int) -> npt.NDArray[np.uint8]:
        """Return a constant's bytes in the one buffer, as large as the largest: fresh memory takes longest."""
        if size > self._buffer.size:
            self._buffer = np.empty(0, np.uint8)  # so that not both lie in memory
            self._buffer = np.empty(size, np.uint8)
        payload = self._buffer[:size]
        bindings.copy_constant(operation, payload)
        return payload

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
            attributes=_attributes(graph.operation, _SIGNATURE),
            operations=tuple(operations),
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
            if (name, dtype, shape) in self._known:
                return self._known[name, dtype, shape]
        constant = self._read_constant(operation, name, dtype, shape)
        key = (name, dtype, shape) if name else (name, dtype, shape, constant.sha256)
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


def _flatten(block: Any) -> Iterator[Any]:
    """Yield a block's operations in order, those of nested regions after the one that holds them."""
    for view in block.operations:
        operation = view.operation
        yield operation
        for region in operation.regions:
            for inner in region.blocks:
                yield from _flatten(inner)


def _attributes(operation: Any, skip: set[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    names = {name for name in bindings.attribute_names(operation) if not name.startswith(_TRANSIENT)}
    for name in sorted(names - skip):
        text = str(operation.attributes[name])
        pairs.append((name, text if len(text) <= _MAX_ATTRIBUTE else sha256_hex(text.encode())))
    return tuple(pairs)


def _ports(graph: Any, key: str, kinds: Any) -> tuple[Port, ...]:
    names = bindings.port_names(graph.operation, key)
    ports = []
    for n, kind in enumerate(kinds):
        dtype, shape = bindings.parse_tensor(kind)
        ports.append(Port(name=names[n] if n < len(names) else "", dtype=dtype, shape=shape))
    return tuple(ports)
