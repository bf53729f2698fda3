"""Digests of all bytes that a verification judges: each file read once, a thread a core, largest files first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.release_json import MODEL_FILES
from forgepack.artifacts.tree import Entry, content
from forgepack.errors import ForgepackError
from forgepack.verify.inputs import Parsed

if TYPE_CHECKING:
    from forgepack.verify.inputs import Input
    from forgepack.verify.subject import Pair

# A release has five files that count, so more threads would not help.
MAX_THREADS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """Size in bytes and SHA-256 of one file."""

    bytes: int
    sha256: str


Digests = Mapping[Path, FileDigest]


def hash_files(paths: Iterable[Path]) -> Parsed[Digests]:
    """Hash files in parallel; one that can't be read is left out and its error kept."""

    def hashed(path: Path) -> FileDigest | ForgepackError:
        try:
            size, sha256 = hash_file(path)
        except ForgepackError as err:
            return err
        return FileDigest(bytes=size, sha256=sha256)

    ordered = sorted(set(paths), key=lambda p: (-_size(p), p))
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        results = list(pool.map(hashed, ordered))
    found = {path: result for path, result in zip(ordered, results, strict=True) if isinstance(result, FileDigest)}
    faults = sorted((r for r in results if isinstance(r, ForgepackError)), key=str)
    return Parsed(value=found, faults=tuple(faults))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def planned_files(pair: Pair) -> Iterator[Path]:
    """Yield every file whose bytes some digest can judge: whole folders, but named files of model and checkpoint.

    Of build and export these are the files that emission binds (``artifacts.tree.content``).
    """
    sources, target = pair.sources, pair.sources.target
    yield from _files(pair, sources.drafter, pair.tree)
    yield from (
        p
        for p in _files(pair, target.model, pair.model_tree)
        if p.relative_to(target.model).as_posix() in MODEL_FILES
    )
    if target.export is not None:
        yield from _files(pair, target.export, pair.export_tree)
    yield from _files(pair, target.build, pair.build_tree)
    if sources.quant is not None:
        yield from _files(pair, sources.quant, pair.quant_tree)
    if sources.checkpoint is not None:
        taken = {*pair.profile.hub.files, *pair.profile.hub.optional_files}
        root = sources.checkpoint
        found = _files(pair, root, pair.checkpoint_tree)
        yield from (p for p in found if p.relative_to(root).as_posix() in taken)


def _files(pair: Pair, root: Path, tree: Input[tuple[Entry, ...]]) -> Iterator[Path]:
    """Yield the regular files of a part that count; where links are allowed also those that lead to one."""
    for entry in content(tree.value) if tree.available else ():
        path = root / entry.path
        if entry.kind == "file" or (entry.kind == "link" and pair.sources.allow_links and path.is_file()):
            yield path
