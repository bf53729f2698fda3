"""Author a program: entry points with named float16 inputs and outputs over shared, named constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.bindings import RawModule, Tensor
from forgepack.coreai_backend.constants import ConstantLookup
from forgepack.coreai_backend.extract import ProgramReader
from forgepack.coreai_backend.ops import Ops
from forgepack.coreai_backend.program import AssetProgram
from forgepack.errors import InternalError
from forgepack.geometry import Shape

Body = Callable[[Ops, Mapping[str, Tensor]], Mapping[str, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One entry point: name, inputs and outputs as (name, shape) in order, and the body that computes them."""

    name: str
    inputs: tuple[tuple[str, Shape], ...]
    outputs: tuple[tuple[str, Shape], ...]
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An authored program, ready to be written; it keeps the constants' buffers alive.

    ``trace`` is its structure as a reader will find it, constants under their names and without content.
    """

    raw: RawModule
    trace: AssetProgram


def build_program(functions: Sequence[Function], constants: ConstantLookup) -> Program:
    """Build all functions into one program; a constant that several of them use is stored once.

    Raises InternalError if a body's results are not what its function declares, or if a constant without a name that
    forgepack gave is left; PlatformError where Core AI is missing or refuses the program.
    """
    attributes: dict[str, Any] = {}

    def resource(name: str) -> Any:
        if name not in attributes:
            attributes[name] = bindings.resource(constants(name))
        return attributes[name]

    with bindings.authoring() as raw:
        for function in functions:
            _insert(function, resource)
    trace = ProgramReader(raw, digests=False).program
    foreign = sorted({c.name for c in trace.constants if c.name is not None} - set(attributes))
    if foreign:
        raise InternalError("a constant was given a name that changes on every run", found=foreign[0])
    return Program(raw=raw, trace=trace)


def _insert(function: Function, resource: Callable[[str], Any]) -> None:
    def body(arguments: list[Tensor]) -> list[Tensor]:
        named = {name: value for (name, _), value in zip(function.inputs, arguments, strict=True)}
        results = function.body(Ops(resource), named)
        if set(results) != {name for name, _ in function.outputs}:
            raise InternalError("a body's results are not its outputs", where=function.name)
        for name, shape in function.outputs:
            _check_result(function.name, name, shape, results[name])
        return [results[name] for name, _ in function.outputs]

    bindings.insert_function(function.name, function.inputs, function.outputs, body)


def _check_result(function: str, name: str, shape: Shape, value: Tensor) -> None:
    """Refuse a result of another type here: Core AI would only say so when the program is saved."""
    expected = str(bindings.tensor_type("F16", shape))
    found = bindings.value_type(value)
    if found != expected:
        raise InternalError(
            "a function computes another type", where=f"{function}.{name}", expected=expected, found=found
        )
