"""Read a Core ML package (.mlpackage), compiled model (.mlmodelc) or bare model (.mlmodel), whatever state it is in.

Nothing here raises for what the files hold: damage is collected and reported. A package's program is read by
coremltools' messages where it is installed; without it only files and manifest are checked, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from forgepack.artifacts.coreml_facts import CoreMlFunction, CoreMlModel, Damage, Kind, StoredWeight
from forgepack.artifacts.coreml_proto import NEEDED, load_messages
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.mil_blob import BlobFile, read_blob_file
from forgepack.artifacts.mil_proto import blob_references, count_operations, functions_of, weights_of
from forgepack.artifacts.mil_text import parse_mil
from forgepack.artifacts.tree import unsafe_reason
from forgepack.canonical import parse_json, parse_object
from forgepack.errors import ForgepackError
from forgepack.limits import COREML_BYTES, MIL_BYTES

MANIFEST = "Manifest.json"
MODEL = "Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "weights/weight.bin"
MODEL_PATH = "@model_path/"
COMPILED_PROGRAM = "model.mil"
COMPILED_METADATA = "metadata.json"
MAX_DAMAGE = 20


@dataclass(slots=True)
class _Found:
    """What has been read so far."""

    model_type: str = "unknown"
    version: int | None = None
    functions: tuple[CoreMlFunction, ...] = ()
    default: str = ""
    weights: tuple[StoredWeight, ...] = ()
    operations: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    weight_bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    unread: str | None = None

    def hurt(self, code: str, where: str, what: str) -> None:
        if len(self.damage) < MAX_DAMAGE:
            self.damage.append(Damage(code=code, where=where, what=what))

    def failed(self, code: str, where: str, err: ForgepackError) -> None:
        self.hurt(code, where, f"{err.what}: {err.found}" if err.found else err.what)


def read_coreml(path: Path) -> CoreMlModel:
    """Return what a Core ML model is; only a path that can't be looked at at all raises."""
    found = _Found()
    kind: Kind = "file"
    if path.is_dir():
        kind = "package" if (path / MANIFEST).exists() or (path / "Data").exists() else "compiled"
    if kind == "compiled":
        _read_compiled(path, found)
    else:
        model = _model_file(path, found) if kind == "package" else path
        if model is not None:
            _read_program(model, path, found)
    return CoreMlModel(
        path=path,
        kind=kind,
        model_type=found.model_type,
        version=found.version,
        functions=found.functions,
        default_function=found.default,
        weights=found.weights,
        operations=found.operations,
        metadata=found.metadata,
        weight_bytes=found.weight_bytes,
        damage=tuple(found.damage),
        unread=found.unread,
    )


def _model_file(root: Path, found: _Found) -> Path | None:
    """Return the package's program by its manifest, each item of which must be there."""
    model = root / MODEL
    try:
        manifest = parse_object(read_bounded(root / MANIFEST), where=MANIFEST)
    except ForgepackError as err:
        found.failed("coreml-manifest", MANIFEST, err)
        return model if model.is_file() else None
    items = manifest.get("itemInfoEntries")
    if not isinstance(items, dict) or not all(isinstance(item, dict) for item in items.values()):
        found.hurt("coreml-manifest", f"{MANIFEST}: itemInfoEntries", "not an object of items")
        return model if model.is_file() else None
    chosen = None
    for key, item in sorted(items.items()):
        place = _item(root, item.get("path"), found)
        if key == manifest.get("rootModelIdentifier"):
            chosen = place
    if chosen is None:
        found.hurt("coreml-manifest", f"{MANIFEST}: rootModelIdentifier", "names no model that is there")
    return chosen if chosen is not None or not model.is_file() else model


def _item(root: Path, path: Any, found: _Found) -> Path | None:
    """Return where an item of the manifest is, None when it is not there."""
    reason = "no path" if not isinstance(path, str) else unsafe_reason(path)
    if reason is not None:
        found.hurt("coreml-manifest", f"{MANIFEST}: {path!r}"[:200], f"the path is not safe: {reason}")
        return None
    place = root / "Data" / str(path)
    if not place.exists():
        found.hurt("manifest-missing-item", f"Data/{path}", "the manifest names it and it is not there")
        return None
    return place


def _read_program(model: Path, root: Path, found: _Found) -> None:
    where = model.relative_to(root).as_posix() if model != root else model.name
    try:
        data = read_bounded(model, COREML_BYTES)
    except ForgepackError as err:
        found.failed("coreml-model", where, err)
        found.unread = err.what
        return
    if not data:
        found.hurt("zero-length", where, "the program is empty")
        return
    messages = load_messages()
    if messages is None:
        found.unread = f"{NEEDED} is not installed: functions, constants and metadata were not read"
        _walk_weights(model.parent / WEIGHTS, found)
        return
    message = _parse(messages, data)
    if message is None:
        found.hurt("coreml-model", where, "not a Core ML model: it can't be parsed")
        _walk_weights(model.parent / WEIGHTS, found)
        return
    found.model_type = message.WhichOneof("Type") or "none"
    found.version = int(message.specificationVersion)
    if found.model_type == "none":
        found.hurt("coreml-model", where, "it holds no model")
    found.functions = functions_of(message)
    found.default = message.description.defaultFunctionName
    found.metadata = dict(sorted(message.description.metadata.userDefined.items()))
    if found.model_type == "mlProgram":
        found.weights = tuple(weights_of(message))
        found.operations = count_operations(message)
        _check_references(message, model.parent, found)
    else:
        _walk_weights(model.parent / WEIGHTS, found)


def _parse(messages: Any, data: bytes) -> Any | None:
    from google.protobuf.message import DecodeError

    message = messages.Model()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def _walk_weights(path: Path, found: _Found) -> BlobFile | None:
    """Walk a weights file that is there; a damaged one is reported."""
    if not path.exists():
        return None
    try:
        blobs = read_blob_file(path)
    except ForgepackError as err:
        found.failed("coreml-weights", WEIGHTS, err)
        return None
    found.weight_bytes += blobs.size
    for where, what in blobs.faults:
        found.hurt("zero-length" if not blobs.size else "coreml-weights", f"{path.name}: {where}", what)
    return blobs


def _check_references(message: Any, folder: Path, found: _Found) -> None:
    """Demand that every constant kept in a file is there, as a record of its type."""
    files: dict[str, BlobFile | None] = {}
    for where, name, offset, dtype in blob_references(message):
        if name not in files:
            files[name] = _open_named(name, folder, found)
        blobs = files[name]
        if blobs is None or blobs.faults:
            continue  # reported once, for the file
        record = blobs.records.get(offset)
        if record is None:
            found.hurt("coreml-weights", where, f"no record starts at {offset} of {PurePosixPath(name).name}")
        elif dtype not in ("", "BOOL", record.dtype):
            found.hurt("coreml-weights", where, f"{dtype} in the program, {record.dtype} in weight.bin")
    if not files:
        _walk_weights(folder / WEIGHTS, found)


def _open_named(name: str, folder: Path, found: _Found) -> BlobFile | None:
    inner = name.removeprefix(MODEL_PATH)
    reason = unsafe_reason(inner)
    if reason is not None or inner == name:
        found.hurt("coreml-weights", f"{name!r}"[:200], f"not a path below {MODEL_PATH}")
        return None
    if not (folder / inner).exists():
        found.hurt("manifest-missing-item", inner, "the program keeps constants in it and it is not there")
        return None
    return _walk_weights(folder / inner, found)


def _read_compiled(root: Path, found: _Found) -> None:
    """Read a compiled model: model.mil as text, metadata.json beside it."""
    _read_compiled_metadata(root / COMPILED_METADATA, found)
    _walk_weights(root / WEIGHTS, found)
    program = root / COMPILED_PROGRAM
    if not program.exists():
        found.hurt("manifest-missing-item", COMPILED_PROGRAM, "a compiled program without its text")
        return
    try:
        text = read_bounded(program, MIL_BYTES).decode("utf-8", "replace")
        parsed = parse_mil(text)
    except ForgepackError as err:
        found.failed("coreml-model", COMPILED_PROGRAM, err)
        return
    if not text.strip():
        found.hurt("zero-length", COMPILED_PROGRAM, "the program is empty")
        return
    found.model_type = "mlProgram"
    found.functions, found.weights = tuple(parsed.functions), tuple(parsed.weights)
    found.operations = dict(sorted(parsed.operations.items()))
    if not parsed.functions:
        found.hurt("coreml-model", COMPILED_PROGRAM, "no function was found in it")


def _read_compiled_metadata(path: Path, found: _Found) -> None:
    if not path.exists():
        return
    try:
        raw = parse_json(read_bounded(path), where=path.name)
    except ForgepackError as err:
        found.failed("coreml-manifest", path.name, err)
        return
    for entry in _objects(raw):
        version, made = entry.get("specificationVersion"), entry.get("userDefinedMetadata")
        found.version = version if type(version) is int else found.version
        if isinstance(made, dict):
            found.metadata = {key: str(value) for key, value in sorted(made.items())}


def _objects(raw: Any) -> Iterator[dict[str, Any]]:
    for entry in raw if isinstance(raw, list) else [raw]:
        if isinstance(entry, dict):
            yield entry
