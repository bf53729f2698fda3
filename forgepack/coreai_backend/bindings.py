"""Every private name of ``coreai-core`` that this tool needs, behind small functions.

Nothing else may import ``coreai._compiler`` or call an underscored name. ``coreai.authoring`` must be imported
before any ``coreai._compiler`` module, or the extension's types are registered twice. tests/coreai_backend
holds one canary a name: when the pinned version moves, they say which one broke.
"""

from __future__ import annotations

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

_END = 16  # bytes by which a payload's end is known
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
    """Return the ranked tensor type of an element type of ours; needs an open context."""
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


def copy_constant(operation: Any, payload: npt.NDArray[np.uint8]) -> None:
    """Copy a constant operation's packed bytes into ``payload``, which has their size.

    What a constant does not fill becomes 0: padding bits, and the tail where its buffer is shorter than its type.
    """
    from coreai._compiler._mlir_libs._coreaiIR import _bindings

    copy = _bindings.compiler.copy_constant_value_to_array
    if is_resource(operation.attributes["value"]):
        # A named buffer is copied byte by byte, so one that reaches the end has filled all before it.
        end = payload[-_END:]
        end[:] = 0
        copy(constant_op=operation, destination=payload)
        if end.any():
            return
    payload[:] = 0
    copy(constant_op=operation, destination=payload)


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
