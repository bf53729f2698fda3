"""A Core ML model's protobuf message as plain values: functions, ports, and how its weights are stored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.artifacts.coreml_facts import CoreMlFunction, Form, Port, StoredWeight
from forgepack.limits import COREML_OPERATIONS

# ArrayFeatureType.ArrayDataType of FeatureTypes.proto.
_ARRAY_TYPES = {65568: "F32", 65552: "F16", 65600: "F64", 131104: "I32", 131080: "I8"}
# DataType of MIL.proto -> (name, bits).
_MIL_TYPES: Mapping[int, tuple[str, int]] = {
    1: ("BOOL", 8),
    10: ("F16", 16),
    11: ("F32", 32),
    12: ("F64", 64),
    13: ("BF16", 16),
    21: ("I8", 8),
    22: ("I16", 16),
    23: ("I32", 32),
    24: ("I64", 64),
    25: ("I4", 4),
    31: ("U8", 8),
    32: ("U16", 16),
    33: ("U32", 32),
    34: ("U64", 64),
    35: ("U4", 4),
    36: ("U2", 2),
    37: ("U1", 1),
    38: ("U6", 6),
    39: ("U3", 3),
}
# Which operand of a constant expression holds the stored values, and what form that is.
_FORMS: Mapping[str, tuple[str, Form]] = {
    "constexpr_lut_to_dense": ("indices", "lut"),
    "constexpr_blockwise_shift_scale": ("data", "affine"),
    "constexpr_affine_dequantize": ("quantized_data", "affine"),
    "constexpr_sparse_to_dense": ("nonzero_data", "sparse"),
    "const": ("val", "dense"),
}
_MAX_OPERATIONS = COREML_OPERATIONS


def functions_of(message: Any) -> tuple[CoreMlFunction, ...]:
    """Return the entry points in the description's order; a model of one function calls it main."""
    description = message.description
    if len(description.functions):
        return tuple(_function(one.name, one) for one in description.functions)
    return (_function("main", description),)


def _function(name: str, raw: Any) -> CoreMlFunction:
    return CoreMlFunction(
        name=name,
        inputs=tuple(map(_port, raw.input)),
        outputs=tuple(map(_port, raw.output)),
        states=tuple(map(_port, raw.state)),
    )


def _port(raw: Any) -> Port:
    kind = raw.type.WhichOneof("Type")
    if kind == "stateType":
        array = raw.type.stateType.arrayType
    elif kind == "multiArrayType":
        array = raw.type.multiArrayType
    else:
        return Port(name=raw.name, dtype=(kind or "no type").removesuffix("Type"), shape=())
    dtype = _ARRAY_TYPES.get(array.dataType, str(array.dataType))
    return Port(name=raw.name, dtype=dtype, shape=tuple(array.shape))


def operations_of(message: Any) -> Iterator[tuple[str, Any]]:
    """Yield (function, operation) of a program, nested blocks included, functions by name."""
    program = message.mlProgram
    for name in sorted(program.functions):
        pending = list(program.functions[name].block_specializations.values())
        count = 0
        while pending:
            block = pending.pop()
            for operation in block.operations:
                count += 1
                if count > _MAX_OPERATIONS:
                    return
                yield name, operation
                pending.extend(operation.blocks)


def count_operations(message: Any) -> dict[str, int]:
    """Return how often each kind of operation stands in a program, constants aside."""
    found = Counter(operation.type for _, operation in operations_of(message) if operation.type != "const")
    return dict(sorted(found.items()))


def weights_of(message: Any) -> Iterator[StoredWeight]:
    """Yield every constant that is palettized, quantized, or kept in weight.bin."""
    for function, operation in operations_of(message):
        role, form = _FORMS.get(operation.type, ("", "dense"))
        value = _values(operation).get(role)
        if value is None:
            continue
        blob = value.WhichOneof("value") == "blobFileValue"
        if operation.type == "const" and not blob:
            continue  # a number or a name, no weight
        bits, elements = _stored(operation, value)
        name = operation.outputs[0].name if len(operation.outputs) else ""
        offset = int(value.blobFileValue.offset) if blob else None
        yield StoredWeight(function=function, name=name, form=form, bits=bits, elements=elements, offset=offset)


def blob_references(message: Any) -> Iterator[tuple[str, str, int, str]]:
    """Yield (constant, file name, offset, element type) of every value that is in a file."""
    for function, operation in operations_of(message):
        name = operation.outputs[0].name if len(operation.outputs) else operation.type
        for role, value in sorted(_values(operation).items()):
            if value.WhichOneof("value") == "blobFileValue":
                place = value.blobFileValue
                dtype = _MIL_TYPES.get(value.type.tensorType.dataType, ("", 0))[0]
                yield f"{function}: {name}.{role}", place.fileName, int(place.offset), dtype


def _values(operation: Any) -> dict[str, Any]:
    """Return the constant operands of an operation: attributes, and inputs that are bound to values."""
    found = dict(operation.attributes.items())
    for role, argument in operation.inputs.items():
        bound = [one.value for one in argument.arguments if one.WhichOneof("binding") == "value"]
        if len(bound) == 1:
            found[role] = bound[0]
    return found


def _stored(operation: Any, value: Any) -> tuple[int, int]:
    """Return (bits of a stored value, number of values)."""
    shape = [dimension.constant.size for dimension in value.type.tensorType.dimensions]
    bits = _MIL_TYPES.get(value.type.tensorType.dataType, ("", 0))[1]
    elements = math.prod(shape)
    if operation.type == "constexpr_lut_to_dense" and "shape" in _values(operation):
        # Before iOS 18 the indices are packed bytes, and the table's length gives the bits.
        lut = _values(operation).get("lut")
        levels = 0 if lut is None else math.prod(d.constant.size for d in lut.type.tensorType.dimensions)
        if levels >= 2:
            bits = max(1, (levels - 1).bit_length())
            elements = elements * 8 // bits
    return bits, elements
