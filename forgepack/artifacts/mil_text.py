"""model.mil of a compiled Core ML model (.mlmodelc): the program as text.

Written after public descriptions of the format; no compiled model could be made where this was written, so it takes
what it understands and leaves the rest. Each line is looked at once, by patterns that can't run away.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forgepack.artifacts.coreml_facts import CoreMlFunction, Form, Port, StoredWeight
from forgepack.errors import LimitError
from forgepack.limits import MIL_ITEMS, MIL_LINE, MIL_LINES

_FUNCTION = re.compile(r"\s*func ([A-Za-z_]\w*)<([\w.]+)>\((.*)\)\s*\{")
_TYPE = r"tensor<(\w+), \[([0-9, ]*)\]>"
_PORT = re.compile(rf"(state<)?{_TYPE}>? ([A-Za-z_]\w*)")
_RESULT = re.compile(rf"\s*{_TYPE} ([A-Za-z_]\w*) = ([a-z_][\w.]*)\(")
_RETURN = re.compile(r"\s*\}\s*->\s*\(([\w, ]*)\);?\s*$")
_BLOB = re.compile(
    rf"(\w+) = {_TYPE}\(BLOBFILE\(path = string\(\"[^\"]{{0,400}}\"\), offset = uint64\((\d{{1,18}})\)\)\)"
)
_DTYPES = {"fp16": "F16", "fp32": "F32", "fp64": "F64", "bf16": "BF16", "bool": "BOOL"}
_FORMS: Mapping[str, tuple[str, Form]] = {
    "constexpr_lut_to_dense": ("indices", "lut"),
    "constexpr_blockwise_shift_scale": ("data", "affine"),
    "constexpr_affine_dequantize": ("quantized_data", "affine"),
    "const": ("val", "dense"),
}
MAX_LINE = MIL_LINE


@dataclass(slots=True)
class MilText:
    """What a model.mil says, as far as it was understood."""

    functions: list[CoreMlFunction] = field(default_factory=list)
    weights: list[StoredWeight] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)


def parse_mil(text: str) -> MilText:
    """Return functions, stored weights and kinds of operations of a program's text; LimitError over its lines."""
    if (count := text.count("\n")) > MIL_LINES:
        limit, told = f"at most {MIL_LINES} lines", f"{count} lines"
        raise LimitError("the program's text is over the limit", expected=limit, found=told, code="mil-limit")
    found, name = MilText(), ""
    inputs: tuple[tuple[bool, Port], ...] = ()
    types: dict[str, Port] = {}
    for line in _lines(text):
        if len(found.weights) + len(found.functions) + len(found.operations) > MIL_ITEMS:
            break
        if (match := _FUNCTION.match(line)) is not None:
            name, types = match[1], {}
            inputs = tuple(_ports(match[3]))
        elif (match := _RETURN.match(line)) is not None and name:
            found.functions.append(_function(name, inputs, [types.get(n) or _unknown(n) for n in _names(match[1])]))
            name = ""
        elif (match := _RESULT.match(line)) is not None and name:
            types[match[3]] = Port(name=match[3], dtype=_dtype(match[1]), shape=_shape(match[2]))
            if match[4] != "const":
                found.operations[match[4]] += 1
            found.weights += _weights(name, match[3], match[4], line)
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that are not too long, one in memory at a time."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start <= MAX_LINE:
            yield text[start:end]
        start = end + 1


def _function(name: str, ports: Sequence[tuple[bool, Port]], outputs: Sequence[Port]) -> CoreMlFunction:
    return CoreMlFunction(
        name=name,
        inputs=tuple(port for state, port in ports if not state),
        outputs=tuple(outputs),
        states=tuple(port for state, port in ports if state),
    )


def _ports(text: str) -> Iterator[tuple[bool, Port]]:
    for match in _PORT.finditer(text):
        yield match[1] is not None, Port(name=match[4], dtype=_dtype(match[2]), shape=_shape(match[3]))


def _unknown(name: str) -> Port:
    return Port(name=name, dtype="unknown", shape=())


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,12}", text))


def _dtype(text: str) -> str:
    match = re.fullmatch(r"(u?)int(\d{1,2})", text)
    return f"{'U' if match[1] else 'I'}{match[2]}" if match else _DTYPES.get(text, text)


def _weights(function: str, name: str, operation: str, line: str) -> Iterator[StoredWeight]:
    role, form = _FORMS.get(operation, ("", "dense"))
    for match in _BLOB.finditer(line):
        if match[1] == role:
            dtype, shape = _dtype(match[2]), _shape(match[3])
            bits = int(re.sub(r"\D", "", dtype) or 0)
            yield StoredWeight(
                function=function,
                name=name,
                form=form,
                bits=bits,
                elements=math.prod(shape),
                offset=int(match[4]),
            )
