"""The target as a release root: model/ (config, tokenizer, embedding), coreai/ (manifest, packages), export/<name>/.

Parts may be elsewhere; whether parts belong together is checked by manifest.export and digests, not by
folder names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.config import TargetConfig, read_target_config
from forgepack.artifacts.files import open_regular, read_bounded, wrong_binary
from forgepack.artifacts.npz import read_npy_header
from forgepack.artifacts.safetensors_file import SafetensorsFile, mapped, read_safetensors
from forgepack.artifacts.tokenizer import Tokenizer, read_tokenizer
from forgepack.artifacts.tree import unsafe_path
from forgepack.canonical import digest_json, parse_object, sha256_hex
from forgepack.errors import CorruptError, InputError, LimitError, MissingError, UsageError
from forgepack.limits import MANIFEST_BYTES, MANIFEST_CHUNKS
from forgepack.schema_check import schema_faults

HEAD_FILE = "lm_head.safetensors"
EMBEDDING_FILE = "embed_tokens_fp16.npy"
MANIFEST_FILE = "manifest.json"
MAX_CHUNKS = MANIFEST_CHUNKS
SCHEMA_NAME = "manifest"
_KEYS = ("T", "chunks", "ctxs", "export", "head", "taps")
_CHUNK_KEYS = ("entries", "file", "layers", "taps")
_UNSAFE = "a package's path is not safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPaths:
    """Where the three parts of a target are; ``export`` is None when the release leaves it out."""

    model: Path
    build: Path
    export: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk of the target's build: package file name, layer range (inclusive), entries, taps inside."""

    file: str
    layers: tuple[int, int]
    entries: tuple[str, ...]
    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """coreai/manifest.json. ``export`` is the last part of what the file names; ``basis`` is rot1_basis."""

    path: Path
    raw: Mapping[str, Any]
    sha256: str
    digest: str
    export: str
    taps: tuple[int, ...]
    block: int
    contexts: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    head_file: str
    basis: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The target's embedding table on disk: C-order float16 of ``shape``."""

    path: Path
    shape: tuple[int, int]
    offset: int

    def row(self, token: int) -> npt.NDArray[np.float16]:
        """Return the float16 row (hidden,) of one token id."""
        return np.array(self.table()[token])

    def table(self) -> npt.NDArray[np.float16]:
        """Return the whole table as a read-only memory map."""
        return mapped(self.path, np.float16, self.offset, self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target whose parts have been parsed. ``head`` is the export's lm_head.safetensors, None without export."""

    paths: TargetPaths
    config: TargetConfig
    tokenizer: Tokenizer
    embedding: Embedding
    manifest: Manifest
    head: SafetensorsFile | None

    @property
    def head_package(self) -> Path:
        """The target's own head package."""
        return self.paths.build / self.manifest.head_file


def locate_target(
    root: Path | None, *, model: Path | None = None, build: Path | None = None, export: Path | None = None
) -> TargetPaths:
    """Find the parts below a release root unless given; UsageError for a path that does not exist."""
    for given in (root, model, build, export):
        if given is not None and not given.is_dir():
            raise UsageError("no such folder", where=str(given), hint="name the target's release root")
    if root is None and (model is None or build is None):
        raise UsageError(
            "the target is not named",
            hint="add --target DIR, its release root, or name its parts by --target-model and --target-build",
        )
    base = root if root is not None else Path()
    model, build = model or base / "model", build or base / "coreai"
    if export is None and root is not None:
        export = find_export(root / "export", build)
    return TargetPaths(model=model, build=build, export=export)


def find_export(parent: Path, build: Path) -> Path | None:
    """Find <parent>/<manifest.export>, or the only folder in ``parent`` (its directory may be named otherwise)."""
    try:
        named = parent / read_manifest(build).export
        if named.is_dir():
            return named
    except InputError:
        pass  # the manifest's own fault is reported where it is read
    folders = [p for p in sorted(parent.iterdir()) if p.is_dir()] if parent.is_dir() else []
    return folders[0] if len(folders) == 1 else None


def read_target(paths: TargetPaths) -> Target:
    """Parse all parts of a target; each fault is raised by the part's own reader."""
    head = None if paths.export is None else read_safetensors(paths.export / HEAD_FILE)
    return Target(
        paths=paths,
        config=read_target_config(paths.model / "config.json"),
        tokenizer=read_tokenizer(paths.model),
        embedding=read_embedding(paths.model / EMBEDDING_FILE),
        manifest=read_manifest(paths.build),
        head=head,
    )


def read_embedding(path: Path) -> Embedding:
    """Parse the npy header of the embedding; the file must be exactly header and C-order float16 rows."""
    with open_regular(path) as handle:
        head = handle.read(512)
        wrong = None if head.startswith(b"\x93NUMPY") else wrong_binary(path, head, "a NumPy array")
        if wrong is not None:
            raise wrong
        handle.seek(0)
        try:
            dtype, fortran, shape, offset = read_npy_header(handle)
        except ValueError as err:
            raise CorruptError("not a NumPy array", where=str(path), found=str(err)[:200], code="npy") from err
        size = handle.seek(0, 2)
    if dtype != "<f2" or fortran or len(shape) != 2 or min(shape) < 1:
        found = f"{_dtype_name(dtype)} {shape} {'Fortran' if fortran else 'C'} order"
        raise CorruptError(
            "the embedding has another form",
            where=str(path),
            expected="C-order float16 of two axes",
            found=found,
            code="npy-form",
        )
    expected = offset + shape[0] * shape[1] * 2
    if size != expected:
        code = "truncated" if size < expected else "trailing-bytes"
        raise CorruptError(
            "the embedding's size does not fit its header",
            where=str(path),
            expected=f"{expected} bytes",
            found=f"{size} bytes",
            code=code,
        )
    return Embedding(path=path, shape=(shape[0], shape[1]), offset=offset)


def _dtype_name(descr: str) -> str:
    """Return NumPy's name of an array's dtype, or the text as it stands where NumPy knows none."""
    try:
        return np.dtype(descr).name
    except TypeError:
        return descr


def read_manifest(build: Path) -> Manifest:
    """Parse coreai/manifest.json; CorruptError names the field that is missing or of another form."""
    path = build / MANIFEST_FILE
    data = read_bounded(path, MANIFEST_BYTES)
    raw = parse_object(data, where=str(path))
    _check_taken(raw, path)
    return Manifest(
        path=path,
        raw=raw,
        sha256=sha256_hex(data),
        digest=digest_json(raw),
        export=PurePosixPath(raw["export"]).name,
        taps=tuple(raw["taps"]),
        block=raw["T"],
        contexts=tuple(raw["ctxs"]),
        chunks=tuple(map(_chunk, raw["chunks"])),
        head_file=raw["head"]["file"],
        basis=raw.get("rot1_basis"),
    )


def named_packages(manifest: Manifest) -> tuple[str, ...]:
    """Return the package names of head and chunks."""
    return (manifest.head_file, *(chunk.file for chunk in manifest.chunks))


def _chunk(raw: Mapping[str, Any]) -> Chunk:
    first, last = raw["layers"]
    taps = tuple(raw.get("taps", ()))
    return Chunk(file=raw["file"], layers=(first, last), entries=tuple(raw["entries"]), taps=taps)


def _check_taken(raw: Mapping[str, Any], path: Path) -> None:
    """Check the fields that are taken, by the schema and for safe paths; rule CTR086 checks the others."""
    chunks, head = raw.get("chunks"), _only(raw.get("head"), ("file",))
    if isinstance(chunks, list):
        if len(chunks) > MAX_CHUNKS:
            raise LimitError("too many chunks", where=str(path), found=str(len(chunks)), code="manifest")
        chunks = [_only(chunk, _CHUNK_KEYS) for chunk in chunks]
    taken = {**raw, "chunks": chunks, "head": head}
    taken = {key: taken[key] for key in _KEYS if key in raw}
    for fault in schema_faults(taken, SCHEMA_NAME):
        package = fault.value if fault.field.endswith(".file") else None
        what = "the manifest lacks a field" if fault.kind == "missing" else "a field of the manifest has another form"
        place = f"{path}: {fault.field}"
        raise unsafe_path(package, _UNSAFE, where=place) or CorruptError(
            what, where=place, expected=fault.expected, found=fault.found, code="manifest"
        )
    for label, part in (("head", head), *((f"chunks[{n}]", chunk) for n, chunk in enumerate(taken["chunks"]))):
        unsafe = unsafe_path(part["file"], _UNSAFE, where=f"{path}: {label}.file")
        if unsafe is not None:
            raise unsafe


def _only(value: Any, keys: Iterable[str]) -> Any:
    """Return the fields of an object that are named; what is not an object is returned as it is."""
    return {key: value[key] for key in keys if key in value} if isinstance(value, dict) else value


def not_a_release_root(root: Path | None, lacking: Iterable[str]) -> MissingError:
    """Return the error of a folder that lacks a target's parts: one for all commands, the path as it was named."""
    return MissingError(
        "this is not a target's release root",
        where=str(root) if root is not None else "--target-model, --target-build",
        expected="model/ and coreai/ in it",
        found=f"no {' and no '.join(lacking)}",
        hint="name the target's release root, or its parts by --target-model and --target-build",
        code="target",
    )
