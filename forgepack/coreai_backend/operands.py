"""What the operations of a target's head take: results so far, constants, x; and the kinds of value they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.coreai_backend.constants import plain_type
from forgepack.coreai_backend.program import AssetProgram, Constant, Operand
from forgepack.coreai_backend.terms import Cells, NotUnderstoodError, Term
from forgepack.geometry import Shape

PART = 1 << 40  # more than a part of the head has cells
_FLOAT_TYPES = ("F16", "F32")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logits:
    """Products of head rows and normed rows; a cell is ``operation·PART + row of the part·rows + row of x``."""

    cells: Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The kernel that an operation decodes from 4-bit indices and a table: rows x columns."""

    rows: int
    columns: int


Value = Term | Logits | Kernel


class OperandReader:
    """Reads the operands of one entry point's operations; ``_values`` holds the results so far, in their order."""

    def __init__(self, program: AssetProgram, shape: Shape, channels: int) -> None:
        self._program, self._input, self._channels = program, shape, channels
        self._values: list[Value] = []

    def _constant(self, operand: Operand) -> Constant:
        if operand.kind != "constant":
            raise NotUnderstoodError("a computed value in place of a constant")
        constant = self._program.constants[operand.index]
        if constant.declaration != (("type", plain_type(constant.dtype, constant.shape)),):
            raise NotUnderstoodError(f"a constant that is declared otherwise: {constant.declaration}")
        return constant

    def _whole(self, operand: Operand) -> tuple[int, ...]:
        """Return the whole numbers of an inline constant: axes, a shape, steps."""
        values = self._constant(operand).values()
        if values.dtype.kind not in "iu":
            raise NotUnderstoodError("an axis that is not a whole number")
        return tuple(int(value) for value in values.reshape(-1))

    def _tensor(self, operand: Operand) -> Term | Logits:
        if operand.kind == "argument" and operand.index == 0:
            cells = np.arange(int(np.prod(self._input))).reshape(self._input)
            return Term(cells=cells, span="element", power=1)
        value = self._values[operand.index] if operand.kind == "result" else None
        if value is None or isinstance(value, Kernel):
            raise NotUnderstoodError("a kernel or constant in place of a tensor")
        return value

    def _term(self, operand: Operand) -> Term:
        if operand.kind == "constant":
            return self._constant_term(operand)
        value = self._tensor(operand)
        if isinstance(value, Logits):
            raise NotUnderstoodError("arithmetic with logits")
        return value

    def _constant_term(self, operand: Operand) -> Term:
        constant = self._constant(operand)
        size = int(np.prod(constant.shape))
        if constant.dtype not in _FLOAT_TYPES or size not in (1, self._channels):
            raise NotUnderstoodError(f"a factor {constant.dtype}{list(constant.shape)}")
        cells: npt.NDArray[np.int64] = np.arange(size).reshape(constant.shape)
        if size == 1:
            return Term(cells=cells, span="number", number=float(constant.values().reshape(())))
        return Term(cells=cells, span="channel", gains=(operand.index,))
