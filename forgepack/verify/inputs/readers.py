"""Readers that the verifier needs beyond those of the artifacts: foreign kinds and absence distinguished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import AssetFiles, read_asset_files
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.mlpackage import coreml_folder, coreml_sidecar
from forgepack.artifacts.release_record import KIND as RECORD
from forgepack.artifacts.safetensors_file import SafetensorsFile, inspect_safetensors
from forgepack.artifacts.sidecar import read_written
from forgepack.canonical import parse_json, parse_object
from forgepack.errors import CorruptError, MissingError
from forgepack.verify.inputs.layout import LICENCE_FILE, NOTICE_FILE
from forgepack.verify.inputs.reading import Parsed

_BOUND_PARTS = ("checkpoint", "package", "profile", "quantization", "runtime", "schema", "target", "tool")


def read_object(path: Path) -> Mapping[str, Any]:
    """Read a JSON file of at most 1 MB that holds one object."""
    return parse_object(read_bounded(path), where=str(path))


def read_any(path: Path) -> Mapping[str, Any]:
    """Read a JSON file of at most 1 MB whose form is another tool's; what is not an object stands under one key."""
    value = parse_json(read_bounded(path), where=str(path))
    return value if isinstance(value, dict) else {"the whole": value}


def read_record(path: Path) -> Mapping[str, Any]:
    """Read forgepack.json in today's form; one that can't be brought to it is left as it is, for rule CTR052."""
    raw = read_object(path)
    try:
        return RECORD.current(raw, where=str(path))
    except CorruptError:
        return raw


def read_sidecar(path: Path) -> Mapping[str, Any]:
    """Read the sidecar as it is written; one that belongs to a Core ML package is refused as that, not key by key."""
    raw = read_written(path)[0]
    reason = coreml_sidecar(raw)
    if reason is not None:
        what = "the sidecar belongs to a Core ML package"
        raise CorruptError(what, where=str(path), expected="W, T, R, entries", found=reason, code="coreml-sidecar")
    return raw


def read_binding(sidecar: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the sidecar's ``forgepack`` object, which binds the package to its target and sources by digests."""
    raw = sidecar.get("forgepack")
    where = f"{path}: forgepack"
    if raw is None:
        raise CorruptError("the package is not attested", where=where, found="nothing", code="unattested")
    if not isinstance(raw, dict):
        raise CorruptError("the binding is not an object", where=where, found=type(raw).__name__, code="binding")
    missing = [part for part in _BOUND_PARTS if not raw.get(part)]
    if missing:
        found = f"without {', '.join(missing)}"
        raise CorruptError("the binding lacks a part", where=where, found=found, code="binding")
    return raw


def read_asset(path: Path) -> AssetFiles:
    """Read the asset's plain files; a Core ML model under an asset's name is refused as that."""
    reason = coreml_folder(path)
    if reason is not None:
        what = "a Core ML package has the asset's name"
        raise CorruptError(what, where=str(path), expected="main.mlirb", found=reason, code="coreml-package")
    return read_asset_files(path)


def text_reader(kind: str) -> Callable[[Path], bytes]:
    """Return a reader of a licence or notice whose absence and emptiness have codes of their own."""

    def read(path: Path) -> bytes:
        try:
            data = read_bounded(path)
        except MissingError as err:
            raise MissingError(f"the {kind} is missing", where=str(path), code=f"{kind}-missing") from err
        if not data.strip():
            raise CorruptError(f"the {kind} is empty", where=str(path), code=f"{kind}-empty")
        return data

    return read


def read_optional(path: Path) -> tuple[Path, bytes]:
    """Read a small file that may be missing; no bytes then."""
    try:
        return path, read_bounded(path)
    except MissingError:
        return path, b""


def read_texts(checkpoint: Path) -> Mapping[str, bytes]:
    """Return licence and notice of a checkpoint, those that it has."""
    found = {}
    for name in (LICENCE_FILE, NOTICE_FILE):
        try:
            found[name] = read_bounded(checkpoint / name)
        except MissingError:
            continue
    return found


def read_header(path: Path) -> Parsed[SafetensorsFile]:
    """Read a header; every fault is kept, and the tensors are usable only if there is none."""
    file, faults = inspect_safetensors(path)
    return Parsed(value=None if faults else file, faults=tuple(faults))
