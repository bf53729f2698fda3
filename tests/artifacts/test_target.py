"""The target's parts: manifest, embedding, and where they lie."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.target import locate_target, read_embedding, read_manifest
from forgepack.errors import CorruptError, LimitError, UsageError

MANIFEST: dict[str, Any] = {
    "version": 1,
    "T": 8,
    "taps": [1, 3],
    "ctxs": [1024],
    "export": "exports/name",
    "chunks": [{"file": "chunk_L00-03.aimodel", "layers": [0, 3], "entries": ["v8_1k"], "taps": [1, 3]}],
    "head": {"file": "head_T8.aimodel"},
}


def manifest(tmp_path: Path, raw: Any) -> Path:
    (tmp_path / "manifest.json").write_text(json.dumps(raw))
    return tmp_path


def test_manifest_values(tmp_path: Path) -> None:
    """The export's name is the last part of what the manifest says; chunks keep order, layers and taps."""
    read = read_manifest(manifest(tmp_path, MANIFEST))
    chunk = read.chunks[0]
    assert ("name", (1, 3), (1024,), None) == (read.export, read.taps, read.contexts, read.basis)
    assert ("chunk_L00-03.aimodel", (0, 3), ("v8_1k",), (1, 3)) == (
        chunk.file,
        chunk.layers,
        chunk.entries,
        chunk.taps,
    )


BAD: dict[str, tuple[str, Any]] = {
    "no export": ("export", None),
    "taps as text": ("taps", "1,3"),
    "tap as flag": ("taps", [True, 3]),
    "tap as float": ("taps", [1.0, 3]),
    "block as text": ("T", "8"),
    "head as text": ("head", "x"),
    "chunks as object": ("chunks", {}),
    "chunk as text": ("chunks", ["x"]),
    "escape": ("head", {"file": "../../etc/x"}),
    "absolute": ("head", {"file": "/etc/x"}),
    "drive": ("head", {"file": "C:x"}),
    "backslash": ("head", {"file": "a\\b"}),
    "three layers": ("chunks", [{**MANIFEST["chunks"][0], "layers": [0, 1, 2]}]),
    "entry as number": ("chunks", [{**MANIFEST["chunks"][0], "entries": [8]}]),
}


@pytest.mark.parametrize("name", BAD)
def test_ill_formed_manifest_names_the_field(tmp_path: Path, name: str) -> None:
    """A missing, ill-typed or escaping field is refused and named."""
    key, value = BAD[name]
    raw = {**copy.deepcopy(MANIFEST), key: value}
    with pytest.raises(CorruptError) as caught:
        read_manifest(manifest(tmp_path, raw))
    assert key in str(caught.value)


def test_too_many_chunks(tmp_path: Path) -> None:
    """A manifest of thousands of chunks is over the limit."""
    with pytest.raises(LimitError):
        read_manifest(manifest(tmp_path, {**MANIFEST, "chunks": MANIFEST["chunks"] * 2000}))


def test_embedding_row(tmp_path: Path) -> None:
    """A row is the float16 row of the table."""
    table = np.arange(12, dtype=np.float16).reshape(4, 3)
    np.save(tmp_path / "e.npy", table)
    embedding = read_embedding(tmp_path / "e.npy")
    assert (4, 3) == embedding.shape
    assert [6, 7, 8] == embedding.row(2).tolist()


def test_embedding_of_another_form_is_refused(tmp_path: Path) -> None:
    """Other dtypes, orders, ranks, cut, padded, pickled and foreign files each get their code."""
    path = tmp_path / "e.npy"
    table = np.arange(12, dtype=np.float16).reshape(4, 3)
    codes = []
    for array in (table.astype(np.float32), np.asfortranarray(table), table[0], np.array([{}], object)):
        np.save(path, array, allow_pickle=True)
        codes.append(_code(path))
    np.save(path, table)
    data = path.read_bytes()
    for raw in (data[:-1], data + b"x", data[:9], b"", b"<!doctype html>", data.replace(b"(4, 3)", b"(4, x)")):
        path.write_bytes(raw)
        codes.append(_code(path))
    assert ["npy-form"] * 4 + ["truncated", "trailing-bytes", "npy", "npy", "wrong-magic", "npy"] == codes
    for old, new in ((b"(4, 3)", b"((((((("[:6]), (b"(4, 3), }", b"(-4,-3),}"), (b"(4, 3), }", b"(0,0),   }"[:9])):
        path.write_bytes(data.replace(old, new))
        assert _code(path) in ("npy", "npy-form")


def _code(path: Path) -> str:
    with pytest.raises(CorruptError) as caught:
        read_embedding(path)
    return caught.value.code


def test_export_is_found_by_the_manifest(tmp_path: Path) -> None:
    """Of several exports the one that the manifest names is taken; without it, only a single one."""
    for name in ("model", "coreai", "export/name", "export/other"):
        (tmp_path / name).mkdir(parents=True)
    assert locate_target(tmp_path).export is None
    manifest(tmp_path / "coreai", MANIFEST)
    assert tmp_path / "export/name" == locate_target(tmp_path).export
    manifest(tmp_path / "coreai", {**MANIFEST, "export": "gone"})
    assert locate_target(tmp_path).export is None


def test_parts_may_lie_elsewhere(tmp_path: Path) -> None:
    """Named parts are taken as given; a path that does not exist is a usage error."""
    for name in ("m", "b"):
        (tmp_path / name).mkdir()
    paths = locate_target(None, model=tmp_path / "m", build=tmp_path / "b")
    assert (tmp_path / "m", tmp_path / "b", None) == (paths.model, paths.build, paths.export)
    with pytest.raises(UsageError):
        locate_target(tmp_path / "none")
    with pytest.raises(UsageError):
        locate_target(None, model=tmp_path / "m")
