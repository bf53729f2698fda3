"""The addresses of the hub on loopback: what it answers when nothing is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from forgepack.miniature.loopback_shelf import Reply, Request, ServedFile, ServedRepo, Shelf

_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def route(shelf: Shelf, request: Request) -> Reply:
    """Answer one request."""
    path = urlsplit(request.path).path
    if request.origin == "storage":
        return _stored(shelf, request, path.removeprefix("/"))
    if not path.startswith(shelf.prefix):
        return _error(404, "", "no such address")
    path = path.removeprefix(shelf.prefix)
    if (found := _API.fullmatch(path)) is not None:
        name, kind, revision = found[1], found[2], unquote(found[3] or "main")
        repo = _open_repo(shelf, request, name)
        if isinstance(repo, Reply):
            return repo
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if kind == "tree":
            return _tree(shelf, request, repo.commits[commit])
        return _json({"id": name, "sha": commit, "private": repo.private, "gated": repo.gated})
    if (found := _RESOLVE.fullmatch(path)) is not None:
        return _resolve(shelf, request, unquote(found[1]), unquote(found[2]), unquote(found[3]))
    return _error(404, "", "no such address")


def _open_repo(shelf: Shelf, request: Request, name: str, *, content: bool = False) -> ServedRepo | Reply:
    """Return the repository, or the refusal: 401 to an anonymous request, 404 or 403 to one with a token."""
    repo = shelf.repos.get(name)
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if repo is None or (repo.private and token != repo.token):
        return _error(404 if token else 401, "RepoNotFound", "Repository not found")
    if content and repo.gated and token != repo.token:
        return _error(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted")
    return repo


def _tree(shelf: Shelf, request: Request, files: Mapping[str, ServedFile]) -> Reply:
    query = parse_qs(urlsplit(request.path).query)
    start = int(query.get("cursor", ["0"])[0])
    paths = sorted(files)
    folders = sorted({p.rpartition("/")[0] for p in paths} - {""})
    entries: list[dict[str, Any]] = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in folders]
    entries += [_entry(path, files[path]) for path in paths]
    end = len(entries) if shelf.page is None else start + shelf.page
    more = {}
    if end < len(entries):
        path = urlsplit(request.path).path.removeprefix(shelf.prefix)
        more["Link"] = f'<{shelf.url}{path}?recursive=true&cursor={end}>; rel="next"'
    return _json(entries[start:end], more)


def _entry(path: str, file: ServedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": file.oid, "size": len(file.data), "path": path}
    if file.lfs:
        entry["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}
    return entry


def _resolve(shelf: Shelf, request: Request, name: str, revision: str, path: str) -> Reply:
    repo = _open_repo(shelf, request, name, content=True)
    if isinstance(repo, Reply):
        return repo
    commit = repo.refs.get(revision, revision)
    if commit not in repo.commits:
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    file = repo.commits[commit].get(path)
    if file is None:
        return _error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
    headers = {"X-Repo-Commit": commit, "ETag": f'"{file.oid}"'}
    if file.lfs:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.data))}
        if shelf.storage_url is not None:
            location = f"{shelf.storage_url}/{file.sha256}?X-Signature=secret"
            return Reply(status=302, headers={**headers, "Location": location})
    return _bytes(request, file.data, headers)


def _stored(shelf: Shelf, request: Request, sha256: str) -> Reply:
    for repo in shelf.repos.values():
        for files in repo.commits.values():
            for file in files.values():
                if file.sha256 == sha256:
                    return _bytes(request, file.data, {"ETag": f'"{sha256}"'})
    return _error(404, "", "no such object")


def _bytes(request: Request, data: bytes, headers: Mapping[str, str]) -> Reply:
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


def _json(value: Any, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(headers={"Content-Type": "application/json", **(headers or {})}, body=json.dumps(value).encode())


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    named = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
    body = json.dumps({"error": message}).encode()
    return Reply(status=status, headers={"Content-Type": "application/json", **named, **(headers or {})}, body=body)
