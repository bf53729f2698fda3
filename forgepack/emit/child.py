"""The child that authors: ``python -m forgepack.emit.child``.

Core AI's writer ends the process when a disk is full, so authoring runs apart from the tool. Requests: ``build``
(write an asset from a constants file) and ``expected`` (the program that a geometry leads to, without weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.builder import build_program
from forgepack.coreai_backend.child_process import serve
from forgepack.coreai_backend.constants import NamedConstant, payload_bytes
from forgepack.coreai_backend.program import program_to_json
from forgepack.emit.graph import drafter_functions
from forgepack.emit.table import constant_table
from forgepack.geometry import Geometry, parse_geometry
from forgepack.profile import Recipe


def _parse(request: Mapping[str, Any]) -> tuple[Geometry, Recipe]:
    return parse_geometry(request["geometry"]), Recipe(**request["recipe"])


def build(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the drafter: both entry points over the constants file, into the new folder ``folder``."""
    geometry, recipe = _parse(request)
    places = request["constants"]

    def lookup(role: str) -> NamedConstant:
        place = places[role]
        data = np.memmap(request["file"], np.uint8, "r", place["offset"], (place["nbytes"],))
        return NamedConstant(name=role, dtype=place["dtype"], shape=tuple(place["shape"]), data=data)

    program = build_program(drafter_functions(geometry, recipe), lookup)
    asset = write_asset(program, Path(request["folder"]), AssetMetadata(**request["metadata"]))
    return {"bytes": asset.program_bytes, "sha256": asset.program_sha256, "trace": program.trace.digest}


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
    serve({"build": build, "expected": expected})
