"""Follow a target's head from its input to its logits: x, the final norm, the head's rows in order, nothing else.

A head's constants prove which numbers it holds, not what it does with them. So each operation is evaluated on cells
that say which element of x, or which row of the head, stands where; at the end the cell of logits[r, v] must be row v
of the head for row r of x. What an operation of another kind would do is not guessed: it is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NoReturn

import numpy as np

from forgepack.coreai_backend.head import Head
from forgepack.coreai_backend.operands import PART, Kernel, Logits, OperandReader, Value
from forgepack.coreai_backend.program import AssetProgram, FunctionTrace, Operand, Operation
from forgepack.coreai_backend.terms import NormAlgebra, NotUnderstoodError, Term
from forgepack.geometry import Shape

_FLOAT = re.compile(r"tensor<((?:\d+x)*)f(?:16|32)>")
_TABLE: Shape = (1, 1, 1, 1, 16, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringFault:
    """Why the logits are not shown to be the head's; ``understood`` when they are known to be others."""

    where: str
    expected: str
    found: str
    understood: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What a head computes: the index of the norm's gain among the constants and its eps; or the first fault."""

    gain: int | None = None
    eps: float | None = None
    fault: WiringFault | None = None


class _FaultError(Exception):
    def __init__(self, fault: WiringFault) -> None:
        super().__init__(fault.found)
        self.fault = fault


def follow_head(program: AssetProgram, head: Head, rows: int) -> Wiring:
    """Return what the entry point that holds ``head`` computes, x (1, columns, 1, rows) being its input."""
    function = next(f for f in program.functions if f.name == head.function)
    follower = _Follower(program, function, head, rows)
    try:
        follower.follow()
    except _FaultError as err:
        return Wiring(gain=follower.gain, eps=follower.norm.eps, fault=err.fault)
    return Wiring(gain=follower.gain, eps=follower.norm.eps)


class _Follower(OperandReader):
    def __init__(self, program: AssetProgram, function: FunctionTrace, head: Head, rows: int) -> None:
        super().__init__(program, (1, head.columns, 1, rows), head.columns)
        self._function, self._head, self._rows = function, head, rows
        self._steps = self._known()
        self._place = 0
        self.norm = NormAlgebra(head.columns, rows)
        self.gain: int | None = None

    def follow(self) -> None:
        """Evaluate all operations in order, then check the last, which returns the logits."""
        expected = (self._input, (self._rows, self._head.rows))
        found = tuple(port.shape for port in (*self._function.inputs, *self._function.outputs))
        if found != expected:
            self._refuse(f"one input {expected[0]}, one output {expected[1]}", str(found)[:120])
        for place, operation in enumerate(self._function.operations[:-1]):
            self._place = place
            try:
                self._values.append(self._evaluate(operation))
            except (NotUnderstoodError, IndexError, ValueError, TypeError) as err:
                self._refuse("a form of the final norm or the head that is known", str(err)[:160], understood=False)
        self._check_use()
        self._check_logits()

    def _evaluate(self, operation: Operation) -> Value:
        step, arity = self._steps.get(operation.short, (None, None))
        if step is None or len(operation.results) != 1 or arity not in (None, len(operation.operands)):
            raise NotUnderstoodError("another operation")
        if operation.attributes:
            raise NotUnderstoodError(f"attributes {operation.attributes}")
        value = step(operation)
        if not isinstance(value, Kernel) and value.cells.shape != self._shape(operation):
            raise NotUnderstoodError(f"a result {operation.results[0]}")
        return value

    def _shape(self, operation: Operation) -> Shape:
        match = _FLOAT.fullmatch(operation.results[0])
        if match is None:
            raise NotUnderstoodError(f"a result {operation.results[0]}")
        return tuple(int(size) for size in match[1].split("x")[:-1])

    def _known(self) -> dict[str, tuple[Callable[[Operation], Value], int | None]]:
        """Return each operation's step and how many operands it has; a concat has as many as it has parts."""
        return {
            **dict.fromkeys(("reshape", "expand_dims", "shrink_dims", "transpose"), (self._move, 2)),
            "cast": (self._move, 1),
            "slice": (self._move, 4),
            "concat": (self._concat, None),
            **dict.fromkeys(("mul", "broadcasting_mul"), (self._multiply, 2)),
            **dict.fromkeys(("divide", "broadcasting_divide"), (self._divide, 2)),
            **dict.fromkeys(("add", "broadcasting_add"), (self._add, 2)),
            **dict.fromkeys(("maximum", "broadcasting_maximum"), (self._maximum, 2)),
            **dict.fromkeys(("reduce_max", "reduce_mean", "reduce_sum"), (self._reduce, 2)),
            **dict.fromkeys(("rsqrt", "sqrt"), (self._root, 1)),
            "abs": (self._absolute, 1),
            "lut_to_dense": (self._decode, 3),
            "conv2d": (self._convolve, 5),
        }

    # Moves: which cell stands where.

    def _move(self, operation: Operation) -> Value:
        value = self._tensor(operation.operands[0])
        made = value.cells
        if operation.short == "transpose":
            made = np.transpose(made, self._whole(operation.operands[1]))
        elif operation.short == "reshape":
            made = made.reshape(self._whole(operation.operands[1]))
        elif operation.short == "expand_dims":
            made = np.expand_dims(made, self._whole(operation.operands[1]))
        elif operation.short == "shrink_dims":
            made = np.squeeze(made, self._whole(operation.operands[1]))
        elif operation.short == "slice":
            begin, end, step = (self._whole(operand) for operand in operation.operands[1:])
            if min((*begin, *end)) < 0 or min(step) < 1:
                raise NotUnderstoodError("a slice that counts from the end")
            made = made[tuple(slice(*box) for box in zip(begin, end, step, strict=True))]
        return replace(value, cells=made)

    def _concat(self, operation: Operation) -> Value:
        (axis,), parts = self._whole(operation.operands[0]), [self._tensor(o) for o in operation.operands[1:]]
        if not all(isinstance(part, Logits) for part in parts):
            raise NotUnderstoodError("parts of other values side by side")
        if sum(part.cells.size for part in parts) > self._head.rows * self._rows:
            raise NotUnderstoodError("more values than logits")
        return Logits(cells=np.concatenate([part.cells for part in parts], axis))

    # The final norm.

    def _multiply(self, operation: Operation) -> Value:
        one, other = operation.operands
        for logits, factor in ((one, other), (other, one)):
            value = self._values[logits.index] if logits.kind == "result" else None
            if isinstance(value, Logits):
                return self._scaled(value, factor)
        return self.norm.product(self._term(one), self._term(other))

    def _scaled(self, value: Logits, factor: Operand) -> Logits:
        """Check that a factor meets the rows of the head that it belongs to; the head's reader has its values."""
        shape = self._constant(factor).shape
        places = np.arange(int(np.prod(shape))).reshape(shape)
        rows = value.cells % PART // self._rows
        if places.size > 1 and not np.array_equal(np.broadcast_to(places, rows.shape), rows):
            self._refuse("each scale over its own row of the head", f"a factor {list(shape)} over other rows")
        return value

    def _divide(self, operation: Operation) -> Term:
        one, other = operation.operands
        return self.norm.product(self._term(one), self._term(other), sign=-1)

    def _absolute(self, operation: Operation) -> Term:
        return self.norm.absolute(self._term(operation.operands[0]))

    def _reduce(self, operation: Operation) -> Term:
        term, axes = self._term(operation.operands[0]), self._whole(operation.operands[1])
        if operation.short == "reduce_max":
            return self.norm.largest(self._place, term, axes)
        return self.norm.mean(term, axes, total=operation.short == "reduce_sum")

    def _maximum(self, operation: Operation) -> Term:
        one, other = (self._term(operand) for operand in operation.operands)
        return self.norm.floored(self._place, one, other)

    def _add(self, operation: Operation) -> Term:
        one, other = (self._term(operand) for operand in operation.operands)
        return self.norm.sum(self._place, one, other)

    def _root(self, operation: Operation) -> Term:
        exponent = Fraction(1 if operation.short == "sqrt" else -1, 2)
        return self.norm.raised(self._place, self._term(operation.operands[0]), exponent)

    # The head.

    def _decode(self, operation: Operation) -> Kernel:
        indices, table = (self._constant(operand) for operand in operation.operands[:2])
        axis = self._whole(operation.operands[2])
        plain = indices.dtype == "U4" and len(indices.shape) == 4 and indices.shape[2:] == (1, 1)
        fits = plain and (table.dtype, table.shape) == ("F16", _TABLE) and not any(axis)
        if not fits or self._shape(operation) != indices.shape:
            raise NotUnderstoodError("a kernel that is not 4-bit indices into one table of 16")
        return Kernel(rows=indices.shape[0], columns=indices.shape[1])

    def _convolve(self, operation: Operation) -> Logits:
        source, kernel, *steps = operation.operands
        decoded = self._values[kernel.index] if kernel.kind == "result" else None
        if not isinstance(decoded, Kernel) or not all(set(self._whole(step)) == {1} for step in steps):
            raise NotUnderstoodError("a convolution that is not 1x1 over a decoded kernel")
        term = self._term(source)
        if not self.norm.is_normed(term):
            self._refuse("x after the final norm, x * Q^-1/2 * gain, before the head's kernel", term.text)
        whole = np.arange(self._head.columns * self._rows).reshape(self._input)
        if decoded.columns != self._head.columns or not np.array_equal(term.cells, whole):
            self._refuse("the channels and rows of x in their order", "another order")
        if self.gain not in (None, term.gains[0]):
            self._refuse("one gain for all parts of the head", "a second one")
        self.gain = term.gains[0]
        cells = np.arange(decoded.rows * self._rows).reshape(1, decoded.rows, 1, self._rows)
        return Logits(cells=cells + self._place * PART)

    # What is checked at the end.

    def _check_use(self) -> None:
        used, todo = set[int](), [len(self._values)]
        while todo:
            place = todo.pop()
            if place not in used:
                used.add(place)
                todo += [o.index for o in self._function.operations[place].operands if o.kind == "result"]
        idle = min(set(range(len(self._values))) - used, default=None)
        if idle is not None:
            self._place = idle
            self._refuse("operations that lead to the logits", "one that leads nowhere")

    def _check_logits(self) -> None:
        self._place = len(self._values)
        output = self._function.operations[-1]
        if (output.name, output.attributes, len(output.operands)) != ("coreai.output", (), 1):
            self._refuse("an output of one value, without attributes", str(output)[:120])
        value = self._values[output.operands[0].index] if output.operands[0].kind == "result" else None
        if not isinstance(value, Logits):
            self._refuse("products of the head's rows and x", "another value")
        rows = np.arange(self._rows)[:, None]
        parts = [p.operation * PART + np.arange(p.rows) * self._rows + rows for p in self._head.parts]
        expected = np.concatenate(parts, axis=1)
        if value.cells.shape != expected.shape:
            self._refuse(f"logits {expected.shape}", str(value.cells.shape))
        wrong = np.argwhere(value.cells != expected)
        if len(wrong):
            row, column = wrong[0].tolist()
            at = np.argwhere(expected == value.cells[row, column])
            found = f"row {at[0][1]} of the head for row {at[0][0]} of x" if len(at) else "another product"
            self._refuse(
                f"logits[{row}, {column}]: row {column} of the head for row {row} of x",
                f"{found}; {len(wrong)} of {expected.size} stand elsewhere",
            )

    def _refuse(self, expected: str, found: str, *, understood: bool = True) -> NoReturn:
        operation = self._function.operations[self._place]
        where = f"{self._function.name}: operation {self._place} {operation.short}"
        raise _FaultError(WiringFault(where=where, expected=expected, found=found, understood=understood))
