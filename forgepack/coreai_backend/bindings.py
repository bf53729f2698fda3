"""Every private name of ``coreai-core`` that this tool needs, behind small functions.

Nothing else may import ``coreai._compiler`` or call an underscored name. ``coreai.authoring`` must be imported
before any ``coreai._compiler`` module, or the extension's types are registered twice. tests/coreai_backend
holds one canary a name: when the pinned version moves, they say which one broke.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.constants import MLIR_NAMES, NamedConstant
from forgepack.geometry import Shape

# A coreai.authoring.Value. The package ships no usable stubs, so the type checker sees Any.
Tensor = Any

GUARD = 16  # bytes behind a payload by which a longer buffer is known
_MARK = np.frombuffer(os.urandom(GUARD + 1), np.uint8)
_MARKS = (_MARK, ~_MARK)
_TWICE = 1 << 20  # buffers up to this size are always copied over both marks
ALIGNMENT = 16  # 64 makes summary() return no functions at full size; none leaves payloads at odd offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class RawModule:
    """An MLIR module together with the context that keeps its buffers alive."""

    context: Any
    module: Any


def new_context() -> Any:
    """Return a fresh MLIR context with Core AI's dialects; dropping it frees every buffer it holds."""
    require_coreai()
    import coreai.authoring as ca

    return ca.Context()._mlir_context


@contextmanager
def authoring() -> Iterator[RawModule]:
    """Open an empty module for insertion; on a clean exit run Core AI's rewrite, then strip debug locations.

    Locations are stripped because they hold this tool's file names and line numbers, which would make the bytes
    depend on a comment, and because a beta of the operating system refused assets over them.
    """
    context = new_context()
    from coreai._compiler._mlir_libs._coreaiIR._bindings.compiler import run_pre_compilation_rewrite
    from coreai._compiler.ir import InsertionPoint, Location, Module
    from coreai._compiler.passmanager import PassManager

    with context, Location.unknown():
        module = Module.create()
        with InsertionPoint(module.body):
            yield RawModule(context=context, module=module)
        run_pre_compilation_rewrite(module=module)
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)


def tensor_type(dtype: str, shape: Shape) -> Any:
    """Return the ranked tensor type of one of our element types; needs an open context."""
    from coreai._compiler.ir import F16Type, F32Type, IntegerType, RankedTensorType

    makers: dict[str, Callable[[], Any]] = {
        "F16": F16Type.get,
        "F32": F32Type.get,
        "U4": lambda: IntegerType.get_unsigned(4),
        "I8": lambda: IntegerType.get_signed(8),
    }
    return RankedTensorType.get(list(shape), makers[dtype]())


def resource(constant: NamedConstant) -> Any:
    """Return a named resource attribute over the constant's own buffer, without a copy."""
    from coreai._compiler.ir import DenseResourceElementsAttr

    kind = tensor_type(constant.dtype, constant.shape)
    return DenseResourceElementsAttr.get_from_buffer(constant.data, constant.name, kind, alignment=ALIGNMENT)


def constant_of(attribute: Any) -> Tensor:
    """Insert a constant operation over a resource attribute and return its value."""
    import coreai.authoring as ca
    from coreai._compiler.dialects._coreai_ops_gen import ConstantOp

    return ca.Value._from_mlir(ConstantOp(value=attribute).result)


def insert_function(
    name: str,
    inputs: Sequence[tuple[str, Shape]],
    outputs: Sequence[tuple[str, Shape]],
    body: Callable[[list[Tensor]], list[Tensor]],
) -> None:
    """Insert an entry point with named float16 inputs and outputs; ``body`` maps arguments to results."""
    import coreai.authoring as ca
    from coreai._compiler.dialects._coreai_ops_gen import OutputOp
    from coreai.authoring.graph_builder import GraphOp

    graph = GraphOp(
        name,
        [tensor_type("F16", shape) for _, shape in inputs],
        [tensor_type("F16", shape) for _, shape in outputs],
        [label for label, _ in inputs],
        [label for label, _ in outputs],
    )
    with graph.block:
        results = body([ca.Value._from_mlir(value) for value in graph.arguments])
        OutputOp([value._to_mlir() for value in results])


def value_type(value: Tensor) -> str:
    """Return a value's type as text, for instance ``tensor<1x8x1x8xf16>``."""
    return str(value._to_mlir().type)


def save_bytecode(raw: RawModule, path: Path) -> None:
    """Verify the module and write it as versioned bytecode for operating system v27 or later."""
    import coreai.authoring as ca

    program = ca.AIProgram._from_mlir_module(raw.module)
    program._save_bytecode(path, minimum_os=ca.OSVersion.v27)


def load_bytecode(path: Path) -> RawModule:
    """Load bytecode into a fresh context. Damaged input can ABORT the process: call it in a child only."""
    context = new_context()
    from coreai._compiler._mlir_libs._coreaiIR._bindings.compiler import load_module_from_bytecode

    return RawModule(context=context, module=load_module_from_bytecode(context=context, path=path))


def copy_constant(operation: Any, room: npt.NDArray[np.uint8], size: int) -> int:
    """Copy a constant operation's packed bytes to the start of ``room`` and return how many there were.

    A constant's type makes it ``size`` bytes long, but Core AI does not check a named buffer against its type: a
    shorter one leaves the rest as it was, a longer one is copied beyond ``size``, so ``room`` must hold the longest.
    More than ``size`` is returned as ``size + 1``.
    """
    from coreai._compiler._mlir_libs._coreaiIR import _bindings

    copy = _bindings.compiler.copy_constant_value_to_array
    if not is_resource(operation.attributes["value"]):
        room[:size] = 0  # padding bits are not written
        copy(constant_op=operation, destination=room[:size])
        return size
    # A byte that keeps its mark was not written, unless it is the mark's own: the second mark differs from the first
    # in every byte. Large buffers are copied once where the first mark decides; it can't be known beforehand.
    start, filled = max(size - 1, 0), size == 0
    for mark in _MARKS:
        tail = room[start : size + GUARD]
        tail[:] = mark[: tail.size]
        copy(constant_op=operation, destination=room)
        if (tail[size - start :] != mark[size - start : tail.size]).any():
            return size + 1
        filled = filled or bool(tail[0] != mark[0])
        if filled and size > _TWICE:
            break
    return size if filled else _written(lambda: copy(constant_op=operation, destination=room), room, size)


def _written(copy: Callable[[], None], room: npt.NDArray[np.uint8], size: int) -> int:
    """Return how many of the first ``size`` bytes a copy writes."""
    images = []
    for byte in (0, 255):
        room[:size] = byte
        copy()
        images.append(room[:size].copy())
    return int(np.count_nonzero(images[0] == images[1]))


def producer() -> str:
    """Return what Core AI writes as the producer of an asset: distribution name and version."""
    require_coreai()
    from coreai import _version

    return f"{_version.PACKAGE_NAME} {_version.__version__}"


def parse_tensor(kind: Any) -> tuple[str, Shape]:
    """Split an MLIR type into our element type (or the foreign type's own text) and its shape."""
    element = getattr(kind, "element_type", None)
    if element is None:
        return str(kind), ()
    return MLIR_NAMES.get(str(element), str(element)), tuple(kind.shape)


def is_resource(attribute: Any) -> bool:
    """Say whether a constant's value is a named buffer rather than stored inline."""
    from coreai._compiler.ir import DenseResourceElementsAttr

    return bool(DenseResourceElementsAttr.isinstance(attribute))


def attribute_names(operation: Any) -> list[str]:
    """Return the names of an operation's attributes."""
    return [named.name for named in operation.attributes]


def symbol_name(graph: Any) -> str:
    """Return the name of an entry point."""
    return str(graph.attributes["sym_name"].value)


def port_names(graph: Any, key: str) -> list[str]:
    """Return the names of an entry point's inputs (``arg_attrs``) or outputs (``res_attrs``), "" where unnamed."""
    if key not in graph.attributes:
        return []
    return [str(port["coreai.name"].value) if "coreai.name" in port else "" for port in graph.attributes[key]]
