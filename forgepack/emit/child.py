"""The child that authors: ``python -m forgepack.emit.child``.

Core AI's writer ends the process when a disk is full, so authoring runs apart from the tool. Requests: ``build``
(write a program), ``describe`` (write its metadata) and ``expected`` (the program that a
geometry leads to, without weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.coreai_backend.asset_writer import AssetMetadata, write_description, write_program
from forgepack.coreai_backend.builder import build_program
from forgepack.coreai_backend.child_process import serve
from forgepack.coreai_backend.constants import NamedConstant, payload_bytes
from forgepack.coreai_backend.placeholders import Placeholders
from forgepack.coreai_backend.program import program_to_json
from forgepack.emit.graph import drafter_functions
from forgepack.emit.table import constant_table
from forgepack.geometry import Geometry, parse_geometry
from forgepack.profile import Recipe


def _parse(request: Mapping[str, Any]) -> tuple[Geometry, Recipe]:
    return parse_geometry(request["geometry"]), Recipe(**request["recipe"])


def build(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the drafter's program into the new folder ``folder``: both entry points over the constants.

    Those of ``constants`` are in ``file``; the others are stood in for, and the answer says where each must go.
    """
    geometry, recipe = _parse(request)
    table, places, placeholders = constant_table(geometry, recipe), request["constants"], Placeholders()

    def lookup(role: str) -> NamedConstant:
        spec = table[role]
        if role not in places:
            return placeholders.constant(role, spec.dtype, spec.shape)
        shape = (payload_bytes(spec.dtype, spec.shape),)
        data = np.memmap(request["file"], np.uint8, "r", places[role], shape)
        return NamedConstant(name=role, dtype=spec.dtype, shape=spec.shape, data=data)

    program = build_program(drafter_functions(geometry, recipe), lookup)
    path = write_program(program, Path(request["folder"]))
    return {"trace": program.trace.digest, "places": placeholders.locate(path)}


def describe(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write what the asset in ``folder`` says of itself."""
    write_description(Path(request["folder"]), AssetMetadata(**request["metadata"]))
    return {}


def expected(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program that emission builds, its constants named by role and without content.

    No weights are needed: the buffers are untouched zero pages.
    """
    geometry, recipe = _parse(request)
    table = constant_table(geometry, recipe)
    zeros = np.zeros(max(payload_bytes(spec.dtype, spec.shape) for spec in table.values()), np.uint8)

    def placeholder(role: str) -> NamedConstant:
        spec = table[role]
        data = zeros[: payload_bytes(spec.dtype, spec.shape)]
        return NamedConstant(name=role, dtype=spec.dtype, shape=spec.shape, data=data)

    return {"program": program_to_json(build_program(drafter_functions(geometry, recipe), placeholder).trace)}


if __name__ == "__main__":
    serve({"build": build, "describe": describe, "expected": expected})
