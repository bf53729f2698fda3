"""report.json: assembled from the recipe, the inputs' digests and each matrix's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forgepack import __version__
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import KIND
from forgepack.parallel import blas_identity
from forgepack.profile import Profile
from forgepack.quantize.judge import KINDS


def run_key(profile: Profile, recipe: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that the bytes of a matrix depend on: the key of resumable work."""
    return {
        "tool": {"name": "forgepack", "version": __version__},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "recipe": recipe,
        "inputs": inputs,
        "numerics": blas_identity(),
    }


def make_report(
    key: Mapping[str, Any], matrices: Mapping[str, Mapping[str, Any]], *, method: str, output: tuple[int, str]
) -> dict[str, Any]:
    """Return the report; ``output`` is (bytes, sha256) of the tensors beside it."""
    return {
        "schema": KIND.schema,
        **key,
        "method": method,
        "matrices": matrices,
        "totals": totals(matrices),
        "output": {"file": QUANT_FILE, "bytes": output[0], "sha256": output[1]},
    }


def totals(matrices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean relative errors of each format over its matrices."""
    out: dict[str, Any] = {}
    for form in ("lut4", "int8"):
        errors = [m["error"] for m in matrices.values() if m["format"] == form]
        means: dict[str, Any] = {
            kind: {how: sum(e[kind][how] for e in errors) / len(errors) for how in ("quantized", "rtn")}
            for kind in KINDS
        }
        out[form] = {"matrices": len(errors), **means}
    return out
