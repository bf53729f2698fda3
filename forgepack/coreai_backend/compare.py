"""Walk an asset's trace and the expected one in step: name every difference, give every constant its role.

The expected program holds its constants under their roles (``layers.0.self_attn.q_proj.lut``) and no content; the
found one may have merged equal constants or named them otherwise. Roles are therefore read off by position: an
operand that the expected trace takes from a role is that role's constant.

Everything else is compared as text. What may differ is ``MAY_DIFFER``, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from forgepack.coreai_backend.program import (
    TRANSIENT,
    AssetProgram,
    Constant,
    FunctionTrace,
    Operand,
    Operation,
    Port,
)

Kind = Literal["function", "signature", "declaration", "operation", "operand", "constant", "role"]
Pairs = tuple[tuple[str, str], ...]

# What two programs of the same meaning may not have in common, and why each of it means nothing.
MAY_DIFFER: Mapping[str, str] = {
    "names of resources": "saving merges equal constants under one of their names; content is compared by role",
    "locations": "debug information: source lines of the tool that built the program; nothing computes with it",
    "order of entry points": "they are called by name",
    f"attributes {TRANSIENT}* that the file lacks": "the optimizer's marks in memory; bytecode does not keep them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference: its kind, the place (entry point and operation), and both sides as text."""

    kind: Kind
    where: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences in order, and the index of the found program's constant for each role that was met."""

    differences: tuple[Difference, ...]
    roles: Mapping[str, int]

    @property
    def same(self) -> bool:
        """Whether the found program has exactly the expected structure."""
        return not self.differences


def compare_programs(expected: AssetProgram, found: AssetProgram) -> Comparison:
    """Compare structure and roles; the content of a role is the caller's to compare, by digest."""
    comparer = _Comparer(expected, found)
    return Comparison(differences=tuple(comparer.differences()), roles=comparer.roles)


class _Comparer:
    def __init__(self, expected: AssetProgram, found: AssetProgram) -> None:
        self._expected = expected
        self._found = found
        self.roles: dict[str, int] = {}

    def differences(self) -> Iterator[Difference]:
        names = {f.name for f in self._expected.functions} | {f.name for f in self._found.functions}
        for name in sorted(names):
            left, right = self._expected.function(name), self._found.function(name)
            if left is None or right is None:
                yield Difference(kind="function", where=name, expected=_presence(left), found=_presence(right))
            else:
                yield from self._function(left, right)
        for name, times in Counter(f.name for f in self._found.functions).items():
            if times > 1:
                yield Difference(kind="function", where=name, expected="one function of this name", found=str(times))
        yield from _declared("the program", self._expected.declaration, self._found.declaration)
        yield from self._unused()
        for name in sorted(set(self._found.foreign) - set(self._expected.foreign)):
            yield Difference(kind="function", where="the program", expected="entry points alone", found=name)

    def _unused(self) -> Iterator[Difference]:
        """Yield the constants of the found program that no operation takes; an emitted program has none."""
        taken = {o.index for f in self._found.functions for op in f.operations for o in op.operands if _constant(o)}
        for number, constant in enumerate(self._found.constants):
            if number not in taken:
                yield Difference(kind="constant", where="the program", expected="none unused", found=_kind(constant))

    def _function(self, left: FunctionTrace, right: FunctionTrace) -> Iterator[Difference]:
        yield from _signature(left, right)
        yield from _declared(left.name, left.declaration, right.declaration)
        matched = dict(_align(left.operations, right.operations))
        taken = set(matched.values())
        for place, operation in enumerate(left.operations):
            where = f"{left.name}: operation {place} {operation.short}"
            if place in matched:
                yield from self._operation(where, operation, right.operations[matched[place]], matched)
            else:
                yield Difference(kind="operation", where=where, expected=_describe(operation), found="none")
        for place, operation in enumerate(right.operations):
            if place not in taken:
                where = f"{right.name}: operation {place} {operation.short}"
                yield Difference(kind="operation", where=where, expected="none", found=_describe(operation))

    def _operation(
        self, where: str, left: Operation, right: Operation, matched: Mapping[int, int]
    ) -> Iterator[Difference]:
        if left.attributes != right.attributes:
            yield Difference(
                kind="operation", where=where, expected=str(left.attributes), found=str(right.attributes)
            )
        if len(left.operands) != len(right.operands):
            expected, found = f"{len(left.operands)} operands", f"{len(right.operands)} operands"
            yield Difference(kind="operand", where=where, expected=expected, found=found)
            return
        for n, (one, other) in enumerate(zip(left.operands, right.operands, strict=True)):
            if _constant(one) and _constant(other):
                yield from self._constant(f"{where}, operand {n}", one.index, other.index)
            elif _mapped(one, matched) != other:
                expected, found = self._name(one, left=True), self._name(other, left=False)
                yield Difference(kind="operand", where=f"{where}, operand {n}", expected=expected, found=found)

    def _constant(self, where: str, left: int, right: int) -> Iterator[Difference]:
        one, other = self._expected.constants[left], self._found.constants[right]
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            yield Difference(kind="constant", where=where, expected=_kind(one), found=_kind(other))
            return
        yield from _declared(where, one.declaration, other.declaration)
        if one.name is None:
            if one.sha256 != other.sha256:
                yield Difference(kind="constant", where=where, expected=_value(one), found=_value(other))
        elif self.roles.setdefault(one.name, right) != right:
            found = f"the content of another constant {_kind(other)}"
            yield Difference(kind="role", where=where, expected=one.name, found=found)

    def _name(self, operand: Operand, *, left: bool) -> str:
        if operand.kind != "constant":
            return f"{operand.kind} {operand.index}" + (f".{operand.result}" if operand.result else "")
        constant = (self._expected if left else self._found).constants[operand.index]
        return f"constant {constant.name if left and constant.name else _kind(constant)}"


def _declared(where: str, expected: Pairs, found: Pairs) -> Iterator[Difference]:
    """Yield what two declarations do not have in common, place by place."""
    ours, theirs = dict(expected), dict(found)
    for place in sorted({*ours, *theirs}):
        if place.startswith(TRANSIENT) and place not in theirs:
            continue
        if ours.get(place) != theirs.get(place):
            sides = {"expected": ours.get(place, "none"), "found": theirs.get(place, "none")}
            yield Difference(kind="declaration", where=f"{where}: {place}", **sides)


def _constant(operand: Operand) -> bool:
    return operand.kind == "constant"


def _signature(left: FunctionTrace, right: FunctionTrace) -> Iterator[Difference]:
    for word, ours, theirs in (("inputs", left.inputs, right.inputs), ("outputs", left.outputs, right.outputs)):
        if ours != theirs:
            n = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
            place = min(len(ours), len(theirs)) if n is None else n
            where = f"{left.name}: {word}[{place}]"
            yield Difference(kind="signature", where=where, expected=_port(ours, place), found=_port(theirs, place))
    if left.attributes != right.attributes:
        expected, found = str(left.attributes), str(right.attributes)
        yield Difference(kind="signature", where=f"{left.name}: attributes", expected=expected, found=found)


def _align(left: Sequence[Operation], right: Sequence[Operation]) -> Iterator[tuple[int, int]]:
    """Yield pairs of places that hold the same operation with the same result types, in order."""
    ours = [(op.name, op.results) for op in left]
    theirs = [(op.name, op.results) for op in right]
    if ours == theirs:
        yield from ((n, n) for n in range(len(ours)))
        return
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        yield from ((block.a + n, block.b + n) for n in range(block.size))


def _mapped(operand: Operand, matched: Mapping[int, int]) -> Operand | None:
    if operand.kind != "result":
        return operand
    place = matched.get(operand.index)
    return None if place is None else Operand(kind="result", index=place, result=operand.result)


def _presence(function: FunctionTrace | None) -> str:
    return "absent" if function is None else "present"


def _describe(operation: Operation) -> str:
    return f"{operation.short} -> {', '.join(operation.results) or 'nothing'}"


def _kind(constant: Constant) -> str:
    return f"{constant.dtype}{list(constant.shape)}"


def _value(constant: Constant) -> str:
    try:
        return f"{_kind(constant)} {constant.values().tolist()}"[:120]
    except ValueError:
        return f"{_kind(constant)} sha256 {constant.sha256}"


def _port(ports: Sequence[Port], place: int) -> str:
    if place >= len(ports):
        return "none"
    port = ports[place]
    return f"{port.name} {port.dtype}{list(port.shape)}"
