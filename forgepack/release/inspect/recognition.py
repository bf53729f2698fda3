"""What a file or folder is, recognised by names and first bytes alone; nothing raises for what it holds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import COMPILED_SUFFIXES, PROGRAM_FILE, SUFFIX
from forgepack.artifacts.checkpoint import CONFIG_FILE, MODEL_FILE
from forgepack.artifacts.config import ARCHITECTURE
from forgepack.artifacts.files import open_regular, read_error, sniff
from forgepack.artifacts.mlpackage import SUFFIXES as COREML_SUFFIXES
from forgepack.artifacts.mlpackage import coreml_folder, coreml_sidecar
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.target import EMBEDDING_FILE, HEAD_FILE, MANIFEST_FILE
from forgepack.artifacts.tokenizer import TOKENIZER_FILE, read_json
from forgepack.errors import CorruptError, LimitError, UsageError

RELEASE_FILE = "release.json"
_HEAD_BYTES = 512
_MLIR = b"ML\xefR"
# What files of this tool call themselves under "schema", without the version behind the slash.
_SCHEMAS = {
    "forgepack.checkpoint-lock": "checkpoint-lock",
    "forgepack.quant_report": "quant-report",
    "forgepack.replay": "replay-report",
    "forgepack.gate": "gate-result",
    "forgepack.gate_policy": "gate-policy",
    "forgepack.timings": "timings",
    "forgepack.attestation": "attestation",
    "forgepack.profile": "profile",
    "forgepack.dflash2_source": "source-record",
    "forgepack.diff": "diff",
    "forgepack.inspect": "inspection",
    "forgepack.build_lock": "build-lock",
    "forgepack.release": "release-record",
    "forgepack.qwen_source": "upstream-record",
    **dict.fromkeys(
        (
            *(
                "forgepack.build-report",
                "forgepack.bundle-plan",
                "forgepack.bundle-report",
                "forgepack.doctor-report",
            ),
            *("forgepack.fetch-report", "forgepack.quantize-plan", "forgepack.attest-report"),
        ),
        "command-output",
    ),
}
_SNIFFED = {
    "a Git LFS pointer": "lfs-pointer",
    "an HTML page": "html",
    "an XML document": "xml",
    "a pickle": "pickle",
    "a GGUF file": "gguf",
    "a gzip file": "gzip",
}


def recognise(path: Path) -> str:
    """Return the kind of a file or folder; UsageError when there is none, UnreadableError when it can't be read."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as err:
        what = "a link that leads nowhere" if path.is_symlink() else "no such file or folder"
        raise UsageError(what, where=str(path)) from err
    except (NotADirectoryError, ValueError) as err:
        raise UsageError("no such file or folder", where=str(path)) from err
    except OSError as err:
        raise read_error(err, str(path)) from err
    if stat.S_ISDIR(mode):
        return recognise_folder(path)
    return recognise_file(path) if stat.S_ISREG(mode) else "special"


def recognise_folder(path: Path) -> str:
    """Return the kind of a folder."""
    name = path.name.casefold()
    if (mark := coreml_folder(path)) is not None:
        return "mlmodelc" if "compiled" in mark else "mlpackage"
    if name.endswith(COREML_SUFFIXES):
        return "mlmodelc" if name.endswith(".mlmodelc") else "mlpackage"
    if name.endswith(COMPILED_SUFFIXES):
        return "compiled-asset"
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError as err:
        raise read_error(err, str(path)) from err
    if name.endswith(SUFFIX) or PROGRAM_FILE in names:
        return "asset"
    if QUANT_FILE in names:
        return "quant"
    return next((kind for kind, holds in _FOLDERS if holds(path, names)), "folder")


def _is_package(_: Path, names: set[str]) -> bool:
    return any(name.endswith(SUFFIX) for name in names) and MANIFEST_FILE not in names


def _is_checkpoint(path: Path, names: set[str]) -> bool:
    if MODEL_FILE not in names:
        return False
    config = _json(path / CONFIG_FILE) if CONFIG_FILE in names else None
    return config is None or (isinstance(config, dict) and config.get("architectures") == [ARCHITECTURE])


_FOLDERS: tuple[tuple[str, Callable[[Path, set[str]], bool]], ...] = (
    ("bundle", lambda path, names: RELEASE_FILE in names),
    ("target", lambda path, names: {"model", "coreai"} <= names),
    ("drafter-package", _is_package),
    ("build", lambda path, names: MANIFEST_FILE in names),
    ("export", lambda path, names: HEAD_FILE in names),
    ("checkpoint", _is_checkpoint),
    ("model", lambda path, names: bool({EMBEDDING_FILE, TOKENIZER_FILE} & names)),
    (
        "hf-model",
        lambda path, names: MODEL_FILE in names or any(n.endswith(".safetensors.index.json") for n in names),
    ),
)


def recognise_file(path: Path) -> str:
    """Return the kind of a regular file."""
    with open_regular(path) as handle:
        head = handle.read(_HEAD_BYTES)
        size = os.fstat(handle.fileno()).st_size
    if not head:
        return "empty"
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return "safetensors"
    if head.startswith(_MLIR):
        return "program"
    return _by_magic(path, head) or _by_name(path, head)


def _by_magic(path: Path, head: bytes) -> str | None:
    sniffed = sniff(head)
    if sniffed == "a NumPy array":
        return "npy"
    if sniffed == "a zip archive":
        return "npz" if path.suffix.casefold() in (".npz", ".zip") else "zip"
    return None if sniffed is None else _SNIFFED[sniffed]


def _by_name(path: Path, head: bytes) -> str:
    suffix = path.suffix.casefold()
    if suffix == ".safetensors":
        return "safetensors"  # damaged: its reader says how
    if suffix == ".mlmodel":
        return "mlmodel"
    if suffix == ".toml":
        return "toml"
    if head.lstrip()[:1] in (b"{", b"[") or suffix == ".json":
        return _json_kind(_json(path))
    if b"\x00" in head:
        return "unknown"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as err:
        return "text" if err.start >= len(head) - 3 else "unknown"
    return "text"


def _json(path: Path) -> Any:
    """Return a JSON file's value, None where it has none that can be parsed."""
    try:
        return read_json(path)
    except (CorruptError, LimitError):
        return None


def _json_kind(raw: Any) -> str:
    if not isinstance(raw, dict):
        return "json" if raw is not None else "damaged-json"
    schema = raw.get("schema")
    if isinstance(schema, str) and (kind := _SCHEMAS.get(schema.partition("/")[0])) is not None:
        return kind
    if coreml_sidecar(raw) is not None:
        return "coreml-sidecar"
    return next((kind for kind, holds in _JSON_KINDS if holds(raw)), "json")


def _has(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda raw: set(keys) <= set(raw)


_JSON_KINDS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("sidecar", _has("W", "T", "entries")),
    ("report", _has("schema_version", "verdict", "checks", "depth")),
    ("release", _has("schema_version", "files", "drafter")),
    ("manifest", _has("chunks", "taps", "export")),
    ("asset-metadata", _has("assetVersion")),
    ("mlpackage-manifest", _has("itemInfoEntries")),
    ("safetensors-index", _has("weight_map")),
    ("tokenizer", lambda raw: isinstance(raw.get("model"), dict) and "vocab" in raw["model"]),
    ("drafter-config", lambda raw: raw.get("architectures") == [ARCHITECTURE]),
    ("model-config", _has("model_type")),
)
