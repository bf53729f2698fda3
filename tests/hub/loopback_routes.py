"""The addresses of the hub on loopback: what it answers when nothing is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from forgepack.miniature.server import Reply, Request
from forgepack.miniature.small_hub import ServedFile, bytes_reply, file_headers, json_reply, tree_entries
from tests.hub.served_repos import ServedRepo, ServedRepos

_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


def route(repos: ServedRepos, request: Request) -> Reply:
    """Answer one request."""
    path = urlsplit(request.path).path
    if not path.startswith(repos.prefix):
        return _error(404, "", "no such address")
    path = path.removeprefix(repos.prefix)
    if (found := _API.fullmatch(path)) is not None:
        name, kind, revision = found[1], found[2], unquote(found[3] or "main")
        repo = _open_repo(repos, request, name)
        if isinstance(repo, Reply):
            return repo
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if kind == "tree":
            return _tree(repos, request, repo.commits[commit])
        return json_reply({"id": name, "sha": commit, "private": repo.private, "gated": repo.gated})
    if (found := _RESOLVE.fullmatch(path)) is not None:
        return _resolve(repos, request, unquote(found[1]), unquote(found[2]), unquote(found[3]))
    return _error(404, "", "no such address")


def _open_repo(repos: ServedRepos, request: Request, name: str, *, content: bool = False) -> ServedRepo | Reply:
    """Return the repository, or the refusal: 401 to an anonymous request, 404 or 403 to one with a token."""
    repo = repos.repos.get(name)
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if repo is None or (repo.private and token != repo.token):
        return _error(404 if token else 401, "RepoNotFound", "Repository not found")
    if content and repo.gated and token != repo.token:
        return _error(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted")
    return repo


def _tree(repos: ServedRepos, request: Request, files: Mapping[str, ServedFile]) -> Reply:
    query = parse_qs(urlsplit(request.path).query)
    start = int(query.get("cursor", ["0"])[0])
    entries = tree_entries(files)
    end = len(entries) if repos.page is None else start + repos.page
    more = {}
    if end < len(entries):
        path = urlsplit(request.path).path.removeprefix(repos.prefix)
        more["Link"] = f'<{repos.url}{path}?recursive=true&cursor={end}>; rel="next"'
    return json_reply(entries[start:end], more)


def _resolve(repos: ServedRepos, request: Request, name: str, revision: str, path: str) -> Reply:
    repo = _open_repo(repos, request, name, content=True)
    if isinstance(repo, Reply):
        return repo
    commit = repo.refs.get(revision, revision)
    if commit not in repo.commits:
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    file = repo.commits[commit].get(path)
    if file is None:
        return _error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
    headers = file_headers(file, commit)
    if file.lfs and repos.storage_url is not None:
        location = f"{repos.storage_url}/{file.sha256}?X-Signature=secret"
        return Reply(status=302, headers={**headers, "Location": location})
    return bytes_reply(request, file.data, headers)


def stored(repos: ServedRepos, request: Request) -> Reply:
    """Answer one request to the storage behind the hub: an object by its SHA-256."""
    sha256 = urlsplit(request.path).path.removeprefix("/")
    for repo in repos.repos.values():
        for files in repo.commits.values():
            for file in files.values():
                if file.sha256 == sha256:
                    return bytes_reply(request, file.data, {"ETag": f'"{sha256}"'})
    return _error(404, "", "no such object")


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    named = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
    body = json.dumps({"error": message}).encode()
    return Reply(status=status, headers={"Content-Type": "application/json", **named, **(headers or {})}, body=body)
