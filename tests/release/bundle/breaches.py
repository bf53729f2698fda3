"""How a bundle is spoiled: one demand broken at a time, everything else kept as it was."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.release.bench import STEM, edit, edit_listed, relist


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One demand broken: what is done to a bundle, which rules stand as causes, what the other check says."""

    name: str
    change: Callable[[Path], None]
    causes: tuple[str, ...]
    word: str


def release(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a breach of release.json."""
    return lambda root: edit(root / "release.json", change)


def entry_of(raw: dict[str, Any], path: str) -> dict[str, Any]:
    """Return one entry of the inventory."""
    return next(entry for entry in raw["files"] if entry["path"] == path)


def listed(path: str, /, **changes: Any) -> Callable[[Path], None]:
    """Return a breach of one entry of the inventory."""
    return release(lambda raw: entry_of(raw, path).update(changes))


def unlist(path: str) -> Callable[[Path], None]:
    """Return a breach that removes an entry of the inventory."""
    return release(lambda raw: raw["files"].remove(entry_of(raw, path)))


def put(*keys: Any, value: Any) -> Callable[[Path], None]:
    """Return a breach that sets a value in release.json."""

    def change(raw: dict[str, Any]) -> None:
        node: Any = raw
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return release(change)


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a breach of the target's manifest under an inventory that was brought up to date."""
    return lambda root: edit_listed(root, "coreai/manifest.json", change)


def sidecar(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a breach of the sidecar under an inventory that was brought up to date."""
    return lambda root: edit_listed(root, f"drafter/{STEM}.json", change)


def config(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a breach of the drafter's config under an inventory that was brought up to date."""
    return lambda root: edit_listed(root, "drafter/config.json", change)


def add_listed(path: str, component: str) -> Callable[[Path], None]:
    """Return a breach that adds a file and lists it."""

    def change(root: Path) -> None:
        (root / path).write_bytes(b"{}")
        digest = hashlib.sha256(b"{}").hexdigest()
        new = {"path": path, "component": component, "bytes": 2, "sha256": digest}
        edit(root / "release.json", lambda raw: raw["files"].append(new))

    return change


def write(path: str, data: bytes) -> Callable[[Path], None]:
    """Return a breach that writes a file and lists nothing."""

    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)

    return change


def link(path: str) -> Callable[[Path], None]:
    """Return a breach that puts a link to the same bytes in place of a file."""

    def change(root: Path) -> None:
        moved = root.parent / "elsewhere"
        (root / path).rename(moved)
        (root / path).symlink_to(moved)

    return change


def flip(path: str) -> Callable[[Path], None]:
    """Return a breach that changes one bit of a file."""

    def change(root: Path) -> None:
        data = bytearray((root / path).read_bytes())
        data[-1] ^= 1
        (root / path).write_bytes(data)

    return change


def rename_document(root: Path) -> None:
    (root / "README.md").rename(root / "CARD.md")
    edit(root / "release.json", lambda raw: entry_of(raw, "README.md").update(path="CARD.md"))


def longer_selector(root: Path) -> None:
    path = root / "drafter/selector.safetensors"
    path.write_bytes(path.read_bytes() + b"\x00")
    relist(root, "drafter/selector.safetensors")


def without_package(root: Path) -> None:
    shutil.rmtree(root / "coreai/chunk_L04-07.aimodel")

    def change(raw: dict[str, Any]) -> None:
        raw["files"] = [e for e in raw["files"] if not e["path"].startswith("coreai/chunk_L04-07.aimodel/")]

    edit(root / "release.json", change)


def headless(raw: dict[str, Any]) -> None:
    raw["entries"]["draft"]["outputs"].remove("logits")
