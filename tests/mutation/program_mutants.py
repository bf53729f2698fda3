"""Every change of one constant, operation or port of a parsed program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from forgepack.canonical import sha256_hex
from forgepack.coreai_backend.program import AssetProgram, Constant, FunctionTrace, Operand, Operation, Port

_OTHER_TYPE = {"F16": "BF16", "BF16": "F16", "I8": "U8", "U4": "I4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMutant:
    """One changed program: the place, the kind of change, and the program."""

    place: str
    kind: str
    program: AssetProgram


def program_mutants(program: AssetProgram) -> Iterator[ProgramMutant]:
    """Yield every mutant of a program."""
    for number, constant in enumerate(program.constants):
        place = constant.name or f"inline {number}"
        for kind, other in constant_changes(constant):
            constants = (*program.constants[:number], other, *program.constants[number + 1 :])
            yield ProgramMutant(place=place, kind=kind, program=replace(program, constants=constants))
    for number, function in enumerate(program.functions):
        for place, kind, changed in _function_mutants(function, program):
            functions = (*program.functions[:number], *changed, *program.functions[number + 1 :])
            yield ProgramMutant(place=place, kind=kind, program=replace(program, functions=functions))
    yield ProgramMutant(place="program", kind="foreign operation", program=replace(program, foreign=("x.call",)))


def constant_changes(constant: Constant) -> Iterator[tuple[str, Constant]]:
    """Yield (kind, changed constant): content, type, shape, name."""
    if constant.data is not None:
        raw = bytearray.fromhex(constant.data)
        raw[-1] ^= 1
        yield "content", replace(constant, data=raw.hex(), sha256=sha256_hex(bytes(raw)))
    elif constant.sha256 is not None:
        yield "content", replace(constant, sha256=sha256_hex(constant.sha256.encode()))
    yield "dtype", replace(constant, dtype=_OTHER_TYPE.get(constant.dtype, "F16"))
    yield "shape", replace(constant, shape=(*constant.shape, 1))
    if constant.shape != constant.shape[::-1]:
        yield "transposed", replace(constant, shape=constant.shape[::-1])
    if constant.name is not None:
        yield "name", replace(constant, name=constant.name + "_2")


Changed = tuple[str, str, tuple[FunctionTrace, ...]]


def _function_mutants(function: FunctionTrace, program: AssetProgram) -> Iterator[Changed]:
    name = function.name
    yield name, "function missing", ()
    yield name, "function renamed", (replace(function, name=f"{name}_2"),)
    yield name, "function twice", (function, replace(function, name=f"{name}_2"))
    yield name, "attribute", (replace(function, attributes=(*function.attributes, ("x", "1"))),)
    for side in ("inputs", "outputs"):
        ports: tuple[Port, ...] = getattr(function, side)
        for place, kind, changed in port_mutants(ports, f"{name}.{side}"):
            yield place, kind, (with_ports(function, side, changed),)
    for place, kind, operations in _operation_mutants(function, program):
        yield place, kind, (replace(function, operations=operations),)


def with_ports(function: FunctionTrace, side: str, ports: tuple[Port, ...]) -> FunctionTrace:
    """Return a function with other inputs or outputs."""
    return replace(function, inputs=ports) if side == "inputs" else replace(function, outputs=ports)


def port_mutants(ports: tuple[Port, ...], where: str) -> Iterator[tuple[str, str, tuple[Port, ...]]]:
    """Yield (place, kind, ports) of every change of a list of ports."""
    if ports != ports[::-1]:
        yield where, "reordered", ports[::-1]
    for number, port in enumerate(ports):
        place = f"{where}[{number}]"
        before, after = ports[:number], ports[number + 1 :]
        yield place, "missing", (*before, *after)
        yield place, "twice", (*before, port, port, *after)
        yield place, "renamed", (*before, replace(port, name=port.name + "x"), *after)
        yield place, "dtype", (*before, replace(port, dtype="F32"), *after)
        yield place, "shape", (*before, replace(port, shape=(*port.shape[:-1], port.shape[-1] + 1)), *after)


def _operation_mutants(
    function: FunctionTrace, program: AssetProgram
) -> Iterator[tuple[str, str, tuple[Operation, ...]]]:
    operations = function.operations
    for number, operation in enumerate(operations):
        place = f"{function.name}: {number} {operation.short}"
        before, after = operations[:number], operations[number + 1 :]
        for kind, other in _changed_operations(operation, number, program):
            yield place, kind, (*before, other, *after)
        yield place, "missing", (*before, *after)
        yield place, "twice", (*before, operation, operation, *after)


def _changed_operations(operation: Operation, number: int, program: AssetProgram) -> Iterator[tuple[str, Operation]]:
    yield "another operation", replace(operation, name=f"{operation.name}x")
    yield "attribute added", replace(operation, attributes=(*operation.attributes, ("x", "1")))
    if operation.attributes:
        (key, value), *rest = operation.attributes
        yield "attribute changed", replace(operation, attributes=((key, f"{value}x"), *rest))
        yield "attribute missing", replace(operation, attributes=tuple(rest))
    if operation.results:
        yield "result type", replace(operation, results=(f"{operation.results[0]}x", *operation.results[1:]))
    if operation.operands != operation.operands[::-1]:
        yield "operands exchanged", replace(operation, operands=operation.operands[::-1])
    for place, operand in enumerate(operation.operands):
        other = _rewired(operand, number, program)
        if other is not None:
            operands = (*operation.operands[:place], other, *operation.operands[place + 1 :])
            yield f"operand {place} re-wired", replace(operation, operands=operands)


def _rewired(operand: Operand, number: int, program: AssetProgram) -> Operand | None:
    """Return another source for an operand: the result before it, another argument, another constant like it."""
    if operand.kind == "constant":
        constant = program.constants[operand.index]
        alike = (
            n
            for n, c in enumerate(program.constants)
            if n != operand.index and (c.dtype, c.shape) == (constant.dtype, constant.shape)
        )
        other = next(alike, None)
        return None if other is None else replace(operand, index=other)
    if operand.kind == "result":
        other = operand.index - 1 if operand.index else (operand.index + 1 if operand.index + 1 < number else None)
        return None if other is None else replace(operand, index=other)
    return replace(operand, index=operand.index - 1 if operand.index else operand.index + 1)
