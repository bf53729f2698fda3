"""One fault a case: what is done to a copy of the good pair, at which depth it shows, and which rules must refuse."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.canonical import dump_canonical

STEM = "dflash2_lut4_gptq"
Change = Callable[[Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fault. ``roots`` are exactly the rules that must stand as causes, ``says`` words that the text must hold."""

    name: str
    change: Change
    roots: tuple[str, ...]
    depth: str = "header"
    says: tuple[str, ...] = ()
    sources: bool = False


def edit(path: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a sabotage that changes a JSON file in place: ``change`` edits the object or returns another."""

    def apply(root: Path) -> None:
        file = root / path
        raw = json.loads(file.read_bytes())
        result = change(raw)
        file.write_bytes(dump_canonical(raw if result is None else result))

    return apply


def put(path: str, *keys: Any, value: Any) -> Change:
    """Return a sabotage that sets the value at a path of keys of a JSON file."""

    def change(raw: dict[str, Any]) -> None:
        node: Any = raw
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return edit(path, change)


def drop(path: str, *keys: Any) -> Change:
    """Return a sabotage that removes the key at a path of keys of a JSON file."""

    def change(raw: dict[str, Any]) -> None:
        node: Any = raw
        for key in keys[:-1]:
            node = node[key]
        del node[keys[-1]]

    return edit(path, change)


def write(path: str, data: bytes) -> Change:
    """Return a sabotage that replaces a file's bytes."""
    return lambda root: _write(root / path, data)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def bytes_of(path: str, change: Callable[[bytes], bytes]) -> Change:
    """Return a sabotage that computes a file's new bytes from the old ones."""
    return lambda root: _write(root / path, change((root / path).read_bytes()))


def remove(path: str) -> Change:
    """Return a sabotage that removes a file or folder."""

    def apply(root: Path) -> None:
        target = root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()

    return apply


def both(*changes: Change) -> Change:
    """Return a sabotage that does several things in order."""

    def apply(root: Path) -> None:
        for change in changes:
            change(root)

    return apply


def header(path: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a sabotage that rewrites a safetensors header and keeps the data."""

    def apply(data: bytes) -> bytes:
        (length,) = struct.unpack("<Q", data[:8])
        raw = json.loads(data[8 : 8 + length])
        result = change(raw)
        text = result if isinstance(result, bytes) else json.dumps(raw).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    return bytes_of(path, apply)


def tensor(path: str, name: str, change: Callable[[Any], Any]) -> Change:
    """Return a sabotage that edits one tensor's values in a safetensors file."""

    def apply(root: Path) -> None:
        from forgepack.artifacts.safetensors_file import DTYPES, read_safetensors

        file = read_safetensors(root / path)
        info = file.info(name)
        raw: Any = np.memmap(root / path, np.uint8, "r+", info.begin, (info.end - info.begin,))
        view = raw.view(DTYPES[info.dtype]).reshape(info.shape)
        result = change(view)
        if result is not None:
            view[...] = result
        raw.flush()

    return apply


def link(path: str, target: str) -> Change:
    """Return a sabotage that puts a symbolic link in place of a file."""

    def apply(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target)

    return apply


def fifo(path: str) -> Change:
    """Return a sabotage that puts a named pipe in place of a file."""

    def apply(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        os.mkfifo(root / path)

    return apply


CONFIG = "drafter/config.json"
SIDECAR = f"drafter/{STEM}.json"
ASSET = f"drafter/{STEM}.aimodel"
MANIFEST = "target/coreai/manifest.json"
TARGET_CONFIG = "target/model/config.json"
HEAD = "target/export/tiny_lr64mix/lm_head.safetensors"
