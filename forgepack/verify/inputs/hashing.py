"""Digests of all bytes that a verification checks: each file read once, a thread a core, largest files first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import hash_file
from forgepack.errors import ForgepackError
from forgepack.verify.inputs.reading import Parsed

# A release has five files that count, so more threads would not help.
MAX_THREADS = 5
# A block is hashed in a third of a millisecond; a thread that computes in Python would keep the next one waiting for
# the interpreter's own 5 ms.
TURN_SECONDS = 0.0005


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
    with _short_turns(), ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        results = list(pool.map(hashed, ordered))
    found = {path: result for path, result in zip(ordered, results, strict=True) if isinstance(result, FileDigest)}
    faults = sorted((r for r in results if isinstance(r, ForgepackError)), key=str)
    return Parsed(value=found, faults=tuple(faults))


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take the interpreter's lock from each other after a short time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
