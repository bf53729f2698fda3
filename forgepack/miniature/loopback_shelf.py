"""What the hub on loopback holds and speaks: files, commits, repositories, requests and replies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".npy", ".mlirb")

Content = Path | Mapping[str, bytes]


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


@dataclass(slots=True, kw_only=True)
class ServedRepo:
    """One repository: its commits and branches; ``token`` opens it when it is gated or private."""

    commits: dict[str, dict[str, ServedFile]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; a header with an empty value is not sent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True, kw_only=True)
class Shelf:
    """Everything served: repositories by name, the addresses of both origins, entries a page, path prefix."""

    repos: dict[str, ServedRepo] = field(default_factory=dict)
    url: str = ""
    storage_url: str | None = None
    page: int | None = None
    prefix: str = ""

    def add(self, repo: str, commit: str, files: Content) -> ServedRepo:
        """Add a commit and move ``main`` to it; a folder is read now, without hidden entries and locks."""
        served = self.repos.setdefault(repo, ServedRepo())
        found = _read_folder(files) if isinstance(files, Path) else files
        served.commits[commit] = {
            path: ServedFile(data=data, lfs=path.endswith(LFS_SUFFIXES)) for path, data in sorted(found.items())
        }
        served.refs["main"] = commit
        return served


def git_blob_id(data: bytes) -> str:
    """Return git's id of a blob: SHA-1 over a header with the size, then the bytes."""
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


def _read_folder(root: Path) -> dict[str, bytes]:
    names = (p.relative_to(root).as_posix() for p in sorted(root.rglob("*")) if p.is_file())
    return {
        name: (root / name).read_bytes()
        for name in names
        if not name.endswith(".lock.json") and not any(part.startswith(".") for part in name.split("/"))
    }
