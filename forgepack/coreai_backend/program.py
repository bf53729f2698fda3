"""What an asset's program is, as plain values: entry points, the trace of operations, the constants.

A trace lists the operations of an entry point in order, constants left out; an operand is an argument, a constant
or the result of an earlier operation. Equal constants may be stored once under one name, so a constant is known by
where it is used, never by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.canonical import digest_json
from forgepack.coreai_backend.constants import plain_type
from forgepack.geometry import Shape

INLINE_BYTES = 512
# Marks of Core AI's optimizer on entry points in memory, which bytecode does not keep: no part of the digest.
TRANSIENT = "__coreai_"
PREFIXES = ("coreai.decomposable.", "coreai.")

OperandKind = Literal["argument", "constant", "result", "foreign"]
_LETTERS: Mapping[OperandKind, str] = {"argument": "a", "constant": "c", "result": "o", "foreign": "x"}
_KINDS: Mapping[str, OperandKind] = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """Where an operand comes from: argument ``index``, constant ``index``, or ``result`` of operation ``index``.

    ``foreign`` is a value of a nested region, which no emitted program has.
    """

    kind: OperandKind
    index: int
    result: int = 0

    def encode(self) -> str:
        """Return the operand as text: ``a3``, ``c12``, ``o5.0``."""
        tail = f".{self.result}" if self.kind == "result" else ""
        return f"{_LETTERS[self.kind]}{self.index}{tail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation: full name, operands, attributes as sorted (name, text) pairs, result types as text."""

    name: str
    operands: tuple[Operand, ...]
    attributes: tuple[tuple[str, str], ...]
    results: tuple[str, ...]

    @property
    def short(self) -> str:
        """The name without dialect, for instance ``conv2d``."""
        prefix = next((p for p in PREFIXES if self.name.startswith(p)), "")
        return self.name.removeprefix(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A named input or output of an entry point."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTrace:
    """An entry point: signature and operations; the last operation is ``coreai.output``.

    ``declaration`` holds the rest as (place, text): the type of each port with its encoding, the attributes of each
    port, parameters, and whatever else the entry point declares. The digest does not cover it.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attributes: tuple[tuple[str, str], ...]
    operations: tuple[Operation, ...]
    declaration: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant: resource name (None if stored inline), type, payload size and digest, its bytes if small.

    ``data`` is the payload in hex when it has at most 512 bytes, else None; ``sha256`` is None when the content was
    not looked at. ``declaration`` holds the type's text with its encoding, and every attribute but the value.
    """

    name: str | None
    dtype: str
    shape: Shape
    nbytes: int
    sha256: str | None
    data: str | None
    declaration: tuple[tuple[str, str], ...] = ()

    def values(self) -> npt.NDArray[Any]:
        """Return the values of a small constant in its shape; ValueError when they were not kept."""
        if self.data is None or self.dtype not in DTYPES:
            raise ValueError(f"the values of {self.name} were not kept")
        return np.frombuffer(bytes.fromhex(self.data), DTYPES[self.dtype]).reshape(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetProgram:
    """All entry points and constants of an asset; ``foreign`` names operations that stand outside entry points.

    ``declaration`` are the attributes of the whole, which the digest does not cover.
    """

    functions: tuple[FunctionTrace, ...]
    constants: tuple[Constant, ...]
    foreign: tuple[str, ...] = ()
    declaration: tuple[tuple[str, str], ...] = ()

    def function(self, name: str) -> FunctionTrace | None:
        """Return the entry point of that name, if there is one."""
        return next((f for f in self.functions if f.name == name), None)

    @property
    def digest(self) -> str:
        """Digest of structure alone: the same for any weights, and however equal constants were merged."""
        functions = [
            {
                "name": f.name,
                "inputs": [asdict(p) for p in f.inputs],
                "outputs": [asdict(p) for p in f.outputs],
                "attributes": f.attributes,
                "operations": [self._shape_of(op) for op in f.operations],
            }
            for f in sorted(self.functions, key=lambda f: f.name)
        ]
        return digest_json({"functions": functions, "foreign": self.foreign})

    def _shape_of(self, operation: Operation) -> list[Any]:
        operands = [self._describe(operand) for operand in operation.operands]
        return [operation.name, operands, operation.attributes, operation.results]

    def _describe(self, operand: Operand) -> Any:
        if operand.kind != "constant":
            return operand.encode()
        constant = self.constants[operand.index]
        return [constant.dtype, constant.shape, constant.data if constant.name is None else None]


def plain_declaration(function: FunctionTrace) -> tuple[tuple[str, str], ...]:
    """Return the declaration of an entry point whose ports have float16 types and names, and nothing else."""
    types = {
        side: [plain_type("F16", port.shape) for port in ports]
        for side, ports in (
            ("inputs", function.inputs),
            ("outputs", function.outputs),
            ("arguments", function.inputs),
        )
    }
    names = {"inputs": function.inputs, "outputs": function.outputs}
    return (
        *((f"{side}[{n}]: type", text) for side, texts in types.items() for n, text in enumerate(texts)),
        *(
            (f"{side}[{n}]: attributes", f'{{coreai.name = "{port.name}"}}')
            for side, ports in names.items()
            for n, port in enumerate(ports)
        ),
        ("param_decls", "#param.decl.array<[]>"),
        ("blocks", "[1]"),
    )


def program_to_json(program: AssetProgram) -> dict[str, Any]:
    """Return a program as JSON values, for the pipe between child and parent."""
    return {
        "functions": [
            {
                "name": f.name,
                "inputs": [asdict(p) for p in f.inputs],
                "outputs": [asdict(p) for p in f.outputs],
                "attributes": f.attributes,
                "operations": [
                    [op.name, [o.encode() for o in op.operands], op.attributes, op.results] for op in f.operations
                ],
                "declaration": f.declaration,
            }
            for f in program.functions
        ],
        "constants": [asdict(c) for c in program.constants],
        "foreign": program.foreign,
        "declaration": program.declaration,
    }


def program_from_json(raw: Mapping[str, Any]) -> AssetProgram:
    """Return the program that ``program_to_json`` wrote; KeyError, TypeError or ValueError if it is not one."""
    program = AssetProgram(
        functions=tuple(_function(f) for f in raw["functions"]),
        constants=tuple(_constant(c) for c in raw["constants"]),
        foreign=tuple(raw["foreign"]),
        declaration=_pairs(raw["declaration"]),
    )
    for function in program.functions:
        _check_references(function, len(program.constants))
    return program


def _function(raw: Mapping[str, Any]) -> FunctionTrace:
    return FunctionTrace(
        name=raw["name"],
        inputs=tuple(_port(p) for p in raw["inputs"]),
        outputs=tuple(_port(p) for p in raw["outputs"]),
        attributes=_pairs(raw["attributes"]),
        operations=tuple(
            Operation(
                name=name,
                operands=tuple(_operand(o) for o in operands),
                attributes=_pairs(attributes),
                results=tuple(results),
            )
            for name, operands, attributes, results in raw["operations"]
        ),
        declaration=_pairs(raw["declaration"]),
    )


def _constant(raw: Mapping[str, Any]) -> Constant:
    return Constant(**{**raw, "shape": tuple(raw["shape"]), "declaration": _pairs(raw["declaration"])})


def _port(raw: Mapping[str, Any]) -> Port:
    return Port(name=raw["name"], dtype=raw["dtype"], shape=tuple(raw["shape"]))


def _pairs(raw: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in raw)


def _operand(text: str) -> Operand:
    index, _, result = text[1:].partition(".")
    return Operand(kind=_KINDS[text[0]], index=int(index), result=int(result or 0))


def _check_references(function: FunctionTrace, constants: int) -> None:
    limits = {"argument": len(function.inputs), "constant": constants, "foreign": math.inf}
    for place, operation in enumerate(function.operations):
        for operand in operation.operands:
            if not 0 <= operand.index < limits.get(operand.kind, place):
                raise ValueError(f"{function.name}: operation {place} refers to {operand.encode()}")
