"""Finding a head in any trace, whatever made it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forgepack.coreai_backend.head import find_head
from forgepack.coreai_backend.program import (
    AssetProgram,
    Constant,
    FunctionTrace,
    Operand,
    Operation,
    Port,
)
from forgepack.coreai_backend.reader import AssetReading
from forgepack.errors import CorruptError, MissingError


def constant(dtype: str, *shape: int) -> Constant:
    return Constant(name="resource_1", dtype=dtype, shape=shape, nbytes=0, sha256=None, data=None)


class Trace:
    """Writes small traces as other tools would."""

    def __init__(self) -> None:
        self.constants: list[Constant] = []
        self.operations: list[Operation] = []
        self.x = Operand(kind="argument", index=0)

    def const(self, dtype: str, *shape: int) -> Operand:
        self.constants.append(constant(dtype, *shape))
        return Operand(kind="constant", index=len(self.constants) - 1)

    def op(self, name: str, *operands: Operand) -> Operand:
        operation = Operation(name=f"coreai.{name}", operands=operands, attributes=(), results=("t",))
        self.operations.append(operation)
        return Operand(kind="result", index=len(self.operations) - 1)

    def lut_part(self, rows: int, columns: int) -> Operand:
        table = self.const("F16", 1, 1, 1, 1, 16, 1)
        kernel = self.op("lut_to_dense", self.const("U4", rows, columns, 1, 1), table, self.const("I16"))
        return self.op("mul", self.op("conv2d", self.x, kernel), self.const("F16", 1, rows, 1, 1))

    def program(self, result: Operand, name: str = "logits") -> AssetProgram:
        self.op("output", result)
        port = Port(name=name, dtype="F16", shape=(1,))
        function = FunctionTrace(
            name="main", inputs=(port,), outputs=(port,), attributes=(), operations=tuple(self.operations)
        )
        return AssetProgram(functions=(function,), constants=tuple(self.constants))


def test_own_package_head(head_reading: AssetReading) -> None:
    """Four parts in row order: 26 + 26 + 26 + 23 rows of 101."""
    head = head_reading.require_head().head
    assert [part.rows for part in head.parts] == [26, 26, 26, 23]
    assert (head.rows, head.columns, head.forms, head.function) == (101, 48, ("lut4",), "h8")


def test_foreign_names_nested_concats_and_casts() -> None:
    """Auto-named constants, a single output of another name, nested concats and casts do not hide a head."""
    trace = Trace()
    axis = trace.const("I32")
    inner = trace.op("concat", axis, trace.lut_part(4, 8), trace.lut_part(2, 8))
    outer = trace.op("concat", axis, inner, trace.op("cast", trace.lut_part(6, 8)))
    head = find_head(trace.program(trace.op("transpose", outer, axis), name="output_0"), "head")
    assert [part.rows for part in head.parts] == [4, 2, 6]
    assert all(len(part.factors) == 1 for part in head.parts)


def test_a_common_factor_belongs_to_every_part() -> None:
    """A number that multiplies the whole output is a factor of each part."""
    trace = Trace()
    both = trace.op("concat", trace.const("I32"), trace.lut_part(4, 8), trace.lut_part(2, 8))
    head = find_head(trace.program(trace.op("broadcasting_mul", both, trace.const("F16"))), "head")
    assert [len(part.factors) for part in head.parts] == [2, 2]


@pytest.mark.parametrize("form", ["dense", "int8", "lut"])
def test_other_forms_are_found_and_named(form: str) -> None:
    """A dense, an INT8 and a wider palettized head are heads too, but say that they are not LUT4."""
    trace = Trace()
    if form == "dense":
        kernel = trace.const("F16", 6, 8, 1, 1)
    elif form == "int8":
        scale, codes = trace.const("F16", 6, 1, 1, 1), trace.const("I8", 6, 8, 1, 1)
        kernel = trace.op("blockwise_shift_scale", codes, scale, scale, scale)
    else:
        table, indices = trace.const("F16", 1, 1, 1, 1, 256, 1), trace.const("U8", 6, 8, 1, 1)
        kernel = trace.op("lut_to_dense", indices, table, trace.const("I16"))
    head = find_head(trace.program(trace.op("conv2d", trace.x, kernel)), "head")
    assert head.forms == (form,)
    assert (head.rows, head.columns) == (6, 8)


def test_headless_package() -> None:
    """A debug package without logits is told by the outputs that it has."""
    trace = Trace()
    program = trace.program(trace.lut_part(4, 8), name="hidden")
    two = replace(program, functions=(*program.functions, replace(program.functions[0], name="other")))
    with pytest.raises(MissingError) as caught:
        find_head(two, "package")
    assert caught.value.code == "head-missing"
    assert "hidden" in str(caught.value.found)


def test_logits_that_no_head_computes() -> None:
    """Logits from an argument, an unknown operation or a product of two values are refused, naming the cause."""
    for result in ("argument", "tanh", "product"):
        trace = Trace()
        value = {
            "argument": lambda t: t.x,
            "tanh": lambda t: t.op("tanh", t.lut_part(4, 8)),
            "product": lambda t: t.op("mul", t.lut_part(4, 8), t.lut_part(4, 8)),
        }[result](trace)
        with pytest.raises(CorruptError) as caught:
            find_head(trace.program(value), "package")
        assert caught.value.code == "head-form"


def test_a_value_that_doubles_itself_ends() -> None:
    """A few dozen concats of a value with itself stand for billions of parts: the search gives up."""
    trace = Trace()
    axis, value = trace.const("I32"), trace.lut_part(4, 8)
    for _ in range(40):
        value = trace.op("concat", axis, value, value)
    with pytest.raises(CorruptError) as caught:
        find_head(trace.program(value), "package")
    assert caught.value.code == "head-form"


def test_scales_that_do_not_fit_their_rows() -> None:
    """A scale of another length than the rows is no head."""
    trace = Trace()
    kernel = trace.const("F16", 6, 8, 1, 1)
    scaled = trace.op("mul", trace.op("conv2d", trace.x, kernel), trace.const("F16", 1, 5, 1, 1))
    with pytest.raises(CorruptError, match="head"):
        find_head(trace.program(scaled), "package")
