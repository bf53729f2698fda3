"""Find the language-model head in any asset's trace: ours, the target's own, or one that other tools made.

A LUT4 head is a 1x1 convolution whose kernel is ``lut_to_dense(indices, table)``, followed by a multiply with one
scale a row; its row parts are side by side in a concat. The search starts at the output and walks backwards, so
names, folds, the number of parts and unrelated layers do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from forgepack.coreai_backend.program import AssetProgram, FunctionTrace, Operand, Operation
from forgepack.errors import CorruptError, MissingError

OUTPUT = "logits"
# A head of one part a row would need fewer; values that are concatenated with themselves would need far more.
MAX_STEPS = 10_000
_PASS_THROUGH = frozenset({"reshape", "transpose", "cast", "expand_dims", "shrink_dims", "slice", "identity", "copy"})
_MULTIPLY = frozenset({"mul", "broadcasting_mul"})
_MATRIX_PRODUCT = frozenset({"batch_matmul", "broadcasting_batch_matmul", "matmul", "linear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPart:
    """Rows of a head, as constants of the program by index.

    ``form`` is ``lut4``, ``lut`` (another width), ``int8`` or ``dense``; for lut4 ``weight`` are the packed indices
    and ``lut`` the table of 16. ``factors`` are the constants that the rows are multiplied by: scales or one number.
    ``operation`` is the place of the product in its entry point.
    """

    form: str
    rows: int
    columns: int
    weight: int
    lut: int | None
    factors: tuple[int, ...]
    operation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A head: the entry point where it was found and its parts in row order."""

    function: str
    parts: tuple[HeadPart, ...]

    @property
    def rows(self) -> int:
        """The vocabulary's rows."""
        return sum(part.rows for part in self.parts)

    @property
    def columns(self) -> int:
        """The hidden size."""
        return self.parts[0].columns

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that occur, sorted; a good head has ``lut4`` alone."""
        return tuple(sorted({part.form for part in self.parts}))


def find_head(program: AssetProgram, where: str) -> Head:
    """Return the head behind the output ``logits`` (or a package's only output).

    Raises MissingError (``head-missing``) for a headless package, CorruptError (``head-form``) when the output is not
    computed by anything that can be read as a head.
    """
    function, place = _find_output(program, where)
    walker = _Walker(program, function, f"{where}: {function.name}")
    parts = tuple(walker.parts(function.operations[-1].operands[place]))
    if len({part.columns for part in parts}) != 1:
        raise _unreadable(where, "parts of different widths")
    return Head(function=function.name, parts=parts)


def _find_output(program: AssetProgram, where: str) -> tuple[FunctionTrace, int]:
    candidates = [(f, n) for f in program.functions for n, port in enumerate(f.outputs) if port.name == OUTPUT]
    if not candidates:
        single = [(f, 0) for f in program.functions if len(f.outputs) == 1]
        candidates = single if len(program.functions) == 1 else []
    if not candidates:
        names = [port.name for f in program.functions for port in f.outputs]
        raise MissingError(
            "the package has no head",
            where=where,
            expected=f"an output named {OUTPUT}",
            found=f"outputs {', '.join(names[:12]) or 'none'}",
            hint="a headless or debug package is not a release: emit it again",
            code="head-missing",
        )
    function, place = candidates[0]
    if not function.operations or len(function.operations[-1].operands) <= place:
        raise _unreadable(where, f"an entry point {function.name} without results")
    return function, place


class _Walker:
    """Walks backwards from a value to the convolutions that it is made of."""

    def __init__(self, program: AssetProgram, function: FunctionTrace, where: str) -> None:
        self._program = program
        self._function = function
        self._where = where
        self._steps = 0

    def parts(self, value: Operand) -> Iterator[HeadPart]:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _unreadable(self._where, f"more than {MAX_STEPS} operations")
        operation = self._operation(value)
        kind = operation.short
        if kind in _PASS_THROUGH:
            yield from self.parts(operation.operands[0])
        elif kind == "concat":
            for operand in operation.operands[1:]:
                yield from self.parts(operand)
        elif kind in _MULTIPLY:
            yield from self._scaled(operation)
        elif kind == "conv2d" or kind in _MATRIX_PRODUCT:
            yield replace(self._part(operation), operation=value.index)
        else:
            raise _unreadable(self._where, f"an operation {operation.name}")

    def _operation(self, value: Operand) -> Operation:
        if value.kind != "result":
            raise _unreadable(self._where, f"a value that no operation computes ({value.kind})")
        return self._function.operations[value.index]

    def _scaled(self, operation: Operation) -> Iterator[HeadPart]:
        constants = [o for o in operation.operands if o.kind == "constant"]
        others = [o for o in operation.operands if o.kind != "constant"]
        if len(constants) != 1 or len(others) != 1:
            raise _unreadable(self._where, "a product of two computed values")
        factor = constants[0].index
        size = math.prod(self._program.constants[factor].shape)
        parts = list(self.parts(others[0]))
        if size not in (1, sum(part.rows for part in parts)) or (size != 1 and len(parts) != 1):
            raise _unreadable(self._where, f"a factor of {size} values over {len(parts)} parts")
        for part in parts:
            yield replace(part, factors=(*part.factors, factor))

    def _part(self, operation: Operation) -> HeadPart:
        kernels = [o for o in operation.operands[:2] if self._is_weight(o)]
        if not kernels:
            raise _unreadable(self._where, f"an operation {operation.name} without a constant kernel")
        kernel = kernels[-1]
        if kernel.kind == "constant":
            return self._read(kernel.index, "dense", None, ())
        decoder = self._function.operations[kernel.index]
        indices = [o.index for o in decoder.operands]
        if decoder.short == "lut_to_dense":
            return self._read(indices[0], "lut4", indices[1], ())
        return self._read(indices[0], "int8", None, (indices[1],))

    def _is_weight(self, operand: Operand) -> bool:
        if operand.kind == "constant":
            return True
        if operand.kind != "result":
            return False
        decoder = self._function.operations[operand.index]
        return decoder.short in ("lut_to_dense", "blockwise_shift_scale") and all(
            o.kind == "constant" for o in decoder.operands
        )

    def _read(self, weight: int, form: str, lut: int | None, factors: tuple[int, ...]) -> HeadPart:
        constant = self._program.constants[weight]
        rows = constant.shape[0] if constant.shape else 0
        columns = math.prod(constant.shape[1:])
        if form == "lut4" and (constant.dtype != "U4" or math.prod(self._program.constants[lut or 0].shape) != 16):
            form = "lut"
        if rows < 1 or columns < 1:
            raise _unreadable(self._where, f"a kernel of shape {list(constant.shape)}")
        return HeadPart(form=form, rows=rows, columns=columns, weight=weight, lut=lut, factors=factors)


def _unreadable(where: str, found: str) -> CorruptError:
    return CorruptError(
        "the head can't be read from the program",
        where=where,
        expected="1x1 convolutions over LUT4 kernels, each scaled per row",
        found=found,
        code="head-form",
    )
