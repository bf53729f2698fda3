"""A small hub on loopback: one folder at one commit, for the real huggingface_hub client.

Of the hub's API it has what a pinned download asks for: model info, the tree, and files by HEAD and GET with ranges
and LFS headers. The tests' own hub has the rest (tests/hub/loopback.py): what a hub refuses, and what goes wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from forgepack.miniature.server import Reply, Request, Server

LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".npy", ".mlirb")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """One file of a commit: in LFS its ETag is the SHA-256 and ``oid`` that of the pointer, else the git blob id."""

    data: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        """The text that git holds for a file in LFS."""
        head = b"version https://git-lfs.github.com/spec/v1\n"
        return head + b"oid sha256:%s\nsize %d\n" % (self.sha256.encode(), len(self.data))

    @property
    def oid(self) -> str:
        """Git blob id of what git holds."""
        return git_blob_id(self.pointer if self.lfs else self.data)


Files = Mapping[str, ServedFile]


def small_hub(repo: str, commit: str, folder: Path) -> Server:
    """Return a hub that serves a folder, read now, as the one commit of the one repository that it has."""
    files = served_files(read_folder(folder))
    api, resolve = f"/api/models/{repo}", f"/{repo}/resolve/{commit}/"

    def answer(request: Request) -> Reply:
        path = unquote(urlsplit(request.path).path)
        if path == f"{api}/revision/{commit}":
            return json_reply({"id": repo, "sha": commit, "private": False, "gated": False})
        if path == f"{api}/tree/{commit}":
            return json_reply(tree_entries(files))
        file = files.get(path.removeprefix(resolve)) if path.startswith(resolve) else None
        if file is None:
            return Reply(status=404)
        return bytes_reply(request, file.data, file_headers(file, commit))

    return Server(answer)


def served_files(files: Mapping[str, bytes]) -> dict[str, ServedFile]:
    """Return files as a hub keeps them, those of some suffixes in LFS."""
    return {path: ServedFile(data=data, lfs=path.endswith(LFS_SUFFIXES)) for path, data in sorted(files.items())}


def read_folder(root: Path) -> dict[str, bytes]:
    """Return path -> bytes of a folder's files, without hidden ones and locks."""
    names = (p.relative_to(root).as_posix() for p in sorted(root.rglob("*")) if p.is_file())
    return {
        name: (root / name).read_bytes()
        for name in names
        if not name.endswith(".lock.json") and not any(part.startswith(".") for part in name.split("/"))
    }


def git_blob_id(data: bytes) -> str:
    """Return git's id of a blob: SHA-1 over a header with the size, then the bytes."""
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


def tree_entries(files: Files) -> list[dict[str, Any]]:
    """Return a tree as the hub's API lists it: folders first."""
    folders = sorted({path.rpartition("/")[0] for path in files} - {""})
    entries: list[dict[str, Any]] = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in folders]
    return entries + [_entry(path, files[path]) for path in sorted(files)]


def _entry(path: str, file: ServedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": file.oid, "size": len(file.data), "path": path}
    if file.lfs:
        entry["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}
    return entry


def file_headers(file: ServedFile, commit: str) -> dict[str, str]:
    """Return what the hub says of a file beside its bytes."""
    headers = {"X-Repo-Commit": commit, "ETag": f'"{file.oid}"'}
    if file.lfs:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.data))}
    return headers


def bytes_reply(request: Request, data: bytes, headers: Mapping[str, str]) -> Reply:
    """Return bytes, or the range of them that is asked for."""
    headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
    wanted = _RANGE.fullmatch(request.headers.get("range", ""))
    if wanted is None:
        return Reply(headers=headers, body=data)
    start, end = int(wanted[1]), int(wanted[2] or len(data) - 1)
    if start >= len(data):
        return Reply(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    body = data[start : end + 1]
    span = f"bytes {start}-{start + len(body) - 1}/{len(data)}"
    return Reply(status=206, headers={**headers, "Content-Range": span}, body=body)


def json_reply(value: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a value as JSON."""
    return Reply(headers={"Content-Type": "application/json", **(headers or {})}, body=json.dumps(value).encode())
