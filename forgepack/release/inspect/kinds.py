"""From a kind to its describer."""

from __future__ import annotations

from collections.abc import Callable

from forgepack.artifacts.files import open_regular
from forgepack.artifacts.tree import walk
from forgepack.errors import CorruptError
from forgepack.release.inspect.coreml import describe_coreml
from forgepack.release.inspect.folders import (
    describe_asset,
    describe_build,
    describe_bundle,
    describe_checkpoint,
    describe_export,
    describe_folder,
    describe_model,
    describe_package,
    describe_quant,
    describe_target,
)
from forgepack.release.inspect.json_documents import JSON_KINDS, describe_damaged_json, describe_json
from forgepack.release.inspect.notes import Notes
from forgepack.release.inspect.tensors import describe_npy, describe_npz, describe_safetensors

_TITLES = {
    "html": "an HTML page",
    "xml": "an XML document",
    "pickle": "a pickle: never loaded",
    "gguf": "a GGUF file",
    "gzip": "a gzip file",
    "zip": "a zip archive",
    "program": "a Core AI program (MLIR bytecode)",
    "toml": "a TOML file",
    "text": "a text file",
    "unknown": "a file of unknown kind",
}


def describe(kind: str, notes: Notes) -> None:
    """Describe what is of a kind; UnreadableError and LimitError end it."""
    if kind in JSON_KINDS:
        describe_json(kind, notes)
    else:
        describer = _DESCRIBERS.get(kind)
        if describer is None:
            _describe_plain(kind, notes)
        else:
            describer(notes)


def _describe_plain(kind: str, notes: Notes) -> None:
    notes.title = _TITLES[kind]
    with open_regular(notes.path) as handle:
        head = handle.read(16)
    notes.facts["bytes"] = notes.path.stat().st_size
    if kind == "unknown":
        notes.facts["first bytes"] = head.hex(" ")
    notes.hash(notes.path)


def _describe_pointer(notes: Notes) -> None:
    """Note which file a Git LFS pointer stands for."""
    notes.title = "a Git LFS pointer: the file itself was never downloaded"
    with open_regular(notes.path) as handle:
        text = handle.read(1024).decode("utf-8", "replace")
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    digest = fields.get("oid", "").removeprefix("sha256:").strip()
    if digest:
        notes.identity["stands for sha256"] = digest
        notes.know(digest)
    notes.facts["stands for bytes"] = fields.get("size", "unknown").strip()
    notes.facts["next"] = "git lfs pull, or forgepack fetch"


def _describe_empty(notes: Notes) -> None:
    notes.title = "an empty file"
    notes.fault(CorruptError("the file is empty", where=str(notes.path), code="zero-length"))


def _describe_special(notes: Notes) -> None:
    notes.title = "not a regular file: a device, socket or pipe"
    notes.fault(CorruptError("not a regular file", where=str(notes.path), code="not-regular"))


def _describe_compiled(notes: Notes) -> None:
    notes.title = "a compiled Core AI asset: of one device and system, its weights can't be proven"
    files = [entry for entry in walk(notes.path) if entry.kind == "file"]
    notes.facts["files"] = f"{len(files)}, {sum(entry.size for entry in files)} bytes"


def _describe_hf_model(notes: Notes) -> None:
    describe_folder(notes)
    notes.title = "a model folder that is not a drafter checkpoint"


_DESCRIBERS: dict[str, Callable[[Notes], None]] = {
    "checkpoint": describe_checkpoint,
    "quant": describe_quant,
    "drafter-package": describe_package,
    "asset": describe_asset,
    "compiled-asset": _describe_compiled,
    "target": describe_target,
    "build": describe_build,
    "export": describe_export,
    "model": describe_model,
    "hf-model": _describe_hf_model,
    "bundle": describe_bundle,
    "folder": describe_folder,
    "mlpackage": describe_coreml,
    "mlmodelc": describe_coreml,
    "mlmodel": describe_coreml,
    "safetensors": describe_safetensors,
    "npz": describe_npz,
    "npy": describe_npy,
    "damaged-json": describe_damaged_json,
    "lfs-pointer": _describe_pointer,
    "empty": _describe_empty,
    "special": _describe_special,
}
KINDS = frozenset(_DESCRIBERS) | JSON_KINDS | frozenset(_TITLES)
