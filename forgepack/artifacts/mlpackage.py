"""Recognition of Core ML packages and of the sidecars beside them, without Core ML.

A Core ML build of the same drafter shares the Core AI package's stem and its sidecar's name; it must never be
taken for it, whatever its folder is called. Sources: the release contract, section 6 item 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

SUFFIXES = (".mlpackage", ".mlmodelc", ".mlmodel")

_PACKAGE_MARKS = ("Manifest.json", "Data/com.apple.CoreML", "Data/com.apple.CoreML/model.mlmodel")
_COMPILED_MARKS = ("coremldata.bin", "model.mil")
_MARK_NAMES = frozenset({"com.apple.coreml", "model.mlmodel", "coremldata.bin", "model.mil"})
_SIDECAR_KEYS = ("quant", "policy", "size_gb")
_DRAFTER_KEYS = ("W", "T", "R", "entries")


def coreml_folder(folder: Path) -> str | None:
    """Say which mark shows that a folder, whatever its name, holds a Core ML model; None when none does."""
    for name, kind in [(n, "package") for n in _PACKAGE_MARKS] + [(n, "compiled model") for n in _COMPILED_MARKS]:
        if (folder / name).exists():
            return f"{name}, the mark of a Core ML {kind}"
    return None


def coreml_parts(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names at the top of a tree under which something of Core ML is, at any depth, sorted.

    ``paths`` are POSIX paths below the root. A suffix or a mark identifies it, whatever its case: some file systems
    take ``X.MLPackage`` for ``X.mlpackage``.
    """
    found = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        if any(part.casefold().endswith(SUFFIXES) or part.casefold() in _MARK_NAMES for part in parts):
            found.add(parts[0])
    return tuple(sorted(found))


def coreml_sidecar(sidecar: Mapping[str, Any]) -> str | None:
    """Say why a sidecar belongs to a Core ML package, or None.

    Such a sidecar states quant, policy or size_gb and none of the drafter's W, T, R and entries.
    """
    told = [key for key in _SIDECAR_KEYS if key in sidecar]
    if told and not any(key in sidecar for key in _DRAFTER_KEYS):
        return f"keys {', '.join(told)} and none of {', '.join(_DRAFTER_KEYS)}"
    return None


def rounded_to_nearest(metadata: Mapping[str, str]) -> bool:
    """Whether a quantized drafter's metadata says plain rounding (RTN), as the Core ML builds were made from."""
    return metadata.get("method") == "rtn"
