"""Walking two traces in step: each kind of edit is named where it is, and roles are read off by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.builder import Function, build_program
from forgepack.coreai_backend.compare import compare_programs
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.extract import ProgramReader
from forgepack.coreai_backend.ops import Ops
from forgepack.coreai_backend.program import AssetProgram, Operand


def body(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    y = ops.add(ops.mul(inputs["x"], ops.named("gain")), ops.named("bias"))
    return {"y": ops.tanh(ops.mul(y, ops.scalar(0.5))), "z": ops.abs(y)}


@pytest.fixture(scope="module")
def program() -> AssetProgram:
    constants = {
        name: NamedConstant(name=name, dtype="F16", shape=(4,), data=np.full(4, n, np.float16))
        for n, name in enumerate(("gain", "bias"))
    }
    ports = (("y", (4,)), ("z", (4,)))
    function = Function(name="f", inputs=(("x", (4,)),), outputs=ports, body=body)
    return ProgramReader(build_program([function], constants.__getitem__).raw).program


def with_operations(program: AssetProgram, change: dict[int, object]) -> AssetProgram:
    """Return the program with operations replaced (a value), removed (None) or inserted before (a tuple)."""
    (function,) = program.functions
    operations = []
    for n, operation in enumerate(function.operations):
        edit = change.get(n, operation)
        operations.extend([edit] if edit is not None else [])
    return replace(program, functions=(replace(function, operations=tuple(operations)),))  # type: ignore[arg-type]


def places(program: AssetProgram, short: str) -> list[int]:
    return [n for n, op in enumerate(program.functions[0].operations) if op.short == short]


def test_a_program_equals_itself_and_gives_its_roles(program: AssetProgram) -> None:
    """Equal traces have no differences, and each named constant is found at its place."""
    found = compare_programs(program, program)
    assert found.same
    assert {role: program.constants[n].name for role, n in found.roles.items()} == {"gain": "gain", "bias": "bias"}


def test_merged_and_renamed_constants_keep_their_roles(program: AssetProgram) -> None:
    """Constants under other names, or merged into one, still take the roles of the places where they are used."""
    constants = tuple(replace(c, name=f"resource_{n}") if c.name else c for n, c in enumerate(program.constants))
    found = compare_programs(program, replace(program, constants=constants))
    assert found.same
    assert set(found.roles) == {"gain", "bias"}


def test_a_removed_operation_is_named(program: AssetProgram) -> None:
    """A missing operation is told with its place and what was expected there."""
    (place,) = places(program, "abs")
    found = compare_programs(program, with_operations(program, {place: None}))
    first = found.differences[0]
    assert (first.kind, first.found) == ("operation", "none")
    assert first.where == f"f: operation {place} abs"


def test_an_added_operation_is_named(program: AssetProgram) -> None:
    """An operation too many is told, and what follows it is not reported again."""
    (function,) = program.functions
    extra = replace(function.operations[0], name="coreai.exp")
    shifted = [
        replace(op, operands=tuple(replace(o, index=o.index + 1) if o.kind == "result" else o for o in op.operands))
        for op in function.operations
    ]
    changed = replace(function, operations=(extra, *shifted))
    found = compare_programs(program, replace(program, functions=(changed,)))
    assert [(d.kind, d.expected) for d in found.differences] == [("operation", "none")]


def test_a_rewired_operand_is_named(program: AssetProgram) -> None:
    """An operation that takes another value is told by operand, with both sources."""
    (place,) = places(program, "abs")
    operation = program.functions[0].operations[place]
    rewired = replace(operation, operands=(Operand(kind="argument", index=0),))
    (difference,) = compare_programs(program, with_operations(program, {place: rewired})).differences
    assert difference.kind == "operand"
    assert difference.where == f"f: operation {place} abs, operand 0"
    assert difference.found == "argument 0"


def test_an_edited_scalar_is_named(program: AssetProgram) -> None:
    """An inline number that is not the expected one is told with both values."""
    constants = tuple(
        replace(c, data=np.float16(0.25).tobytes().hex(), sha256="0" * 64) if c.name is None and c.shape == () else c
        for c in program.constants
    )
    (difference,) = compare_programs(program, replace(program, constants=constants)).differences
    assert difference.kind == "constant"
    assert "0.5" in difference.expected
    assert "0.25" in difference.found


def test_one_role_with_two_contents_is_named(program: AssetProgram) -> None:
    """If two places that share a weight use different constants, the role is told."""
    (function,) = program.functions
    twin = replace(function, name="g")
    expected = replace(program, functions=(function, twin))
    other = len(program.constants)
    constants = (*program.constants, replace(program.constants[0], name="copy", sha256="1" * 64))
    gain = next(n for n, c in enumerate(program.constants) if c.name == "gain")
    constants = (*program.constants, replace(program.constants[gain], name="copy", sha256="1" * 64))
    operations = tuple(
        replace(op, operands=tuple(replace(o, index=other) if o == Operand(kind="constant", index=gain) else o
                                   for o in op.operands))
        for op in twin.operations
    )  # fmt: skip
    found = replace(expected, functions=(function, replace(twin, operations=operations)), constants=constants)
    (difference,) = compare_programs(expected, found).differences
    assert (difference.kind, difference.expected) == ("role", "gain")


def test_signatures_and_entry_points(program: AssetProgram) -> None:
    """Renamed outputs and missing or added entry points are told."""
    (function,) = program.functions
    renamed = replace(function, outputs=(replace(function.outputs[0], name="w"), function.outputs[1]))
    (difference,) = compare_programs(program, replace(program, functions=(renamed,))).differences
    assert (difference.kind, difference.where) == ("signature", "f: outputs[0]")
    gone = compare_programs(program, replace(program, functions=(replace(function, name="g"),)))
    assert [(d.where, d.expected, d.found) for d in gone.differences] == [
        ("f", "present", "absent"),
        ("g", "absent", "present"),
    ]


def test_structure_digest_ignores_content_alone(program: AssetProgram) -> None:
    """Other weights have the same structure digest; another number or operation does not."""
    other = tuple(replace(c, sha256="2" * 64) if c.name else c for c in program.constants)
    assert replace(program, constants=other).digest == program.digest
    scalar = tuple(replace(c, data="ffff") if c.name is None else c for c in program.constants)
    assert replace(program, constants=scalar).digest != program.digest
    assert with_operations(program, {places(program, "abs")[0]: None}).digest != program.digest
