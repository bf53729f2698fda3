"""The tests' hub on loopback: repositories at pinned commits for the real huggingface_hub client, and faults.

More than the demonstration's small hub: branches, pages of a tree, a second origin for storage, gated and private
repositories, the hub's X-Error-Code, and answers that ``fault`` damages.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from forgepack.miniature.server import Handler, Reply, Request, Server, close
from tests.hub.loopback_routes import route, stored
from tests.hub.served_repos import Content, ServedRepo, ServedRepos


@dataclass(slots=True, kw_only=True)
class Fault:
    """Damage done to the first ``times`` answers whose method and path match.

    ``status``, ``headers`` and ``body`` replace the answer's (``headers`` are added when there is no ``status``);
    ``change`` maps the reply to another; ``cut`` closes the connection after that many bytes of body; ``drop`` closes
    it at once; ``before`` is called first, ``during`` after the first ``cut`` bytes, in the server's thread.
    """

    method: str
    path: str
    times: int = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    change: Callable[[Reply], Reply] | None = None
    cut: int | None = None
    drop: bool = False
    before: Callable[[], object] | None = None
    during: Callable[[], object] | None = None


class LoopbackHub:
    """The server, used as a context manager; ``url`` is its endpoint, ``log`` what was asked of it, in order.

    With ``storage`` the bytes of LFS files lie at a second origin (another port) behind a redirect; ``page`` is the
    number of entries a page of a tree; ``prefix`` is a path before all addresses, as mirrors have.
    """

    def __init__(self, *, storage: bool = False, page: int | None = None, prefix: str = "") -> None:
        self.log: list[Request] = []
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._server = _Server(lambda request: route(self.repos, request), self.take)
        self._storage = _Server(lambda request: stored(self.repos, request), self.take) if storage else None
        self.url = self._server.url + prefix
        storage_url = self._storage.url if self._storage else None
        self.repos = ServedRepos(url=self.url, storage_url=storage_url, page=page, prefix=prefix)

    @classmethod
    def serve(cls, content: Mapping[str, Mapping[str, Content]], *, storage: bool = False) -> Self:
        """Return a hub for ``{repo: {commit: folder or {path: bytes}}}``; ``main`` is each repo's last commit."""
        hub = cls(storage=storage)
        for repo, commits in content.items():
            for commit, files in commits.items():
                hub.add(repo, commit, files)
        return hub

    def add(self, repo: str, commit: str, files: Content) -> ServedRepo:
        """Add a commit and move ``main`` to it."""
        return self.repos.add(repo, commit, files)

    def fault(self, method: str, path: str, **damage: Any) -> Fault:
        """Damage coming answers; ``path`` is a regular expression searched in the request's path and query."""
        fault = Fault(method=method, path=path, **damage)
        with self._guard:
            self._faults.append(fault)
        return fault

    def take(self, request: Request) -> Fault | None:
        """Log a request and return the fault that is due for its answer."""
        with self._guard:
            self.log.append(request)
            for fault in self._faults:
                if fault.times and fault.method == request.method and re.search(fault.path, request.path):
                    fault.times -= 1
                    return fault
        return None

    def __enter__(self) -> Self:
        for server in self._servers():
            server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers():
            server.__exit__()

    def _servers(self) -> list[_Server]:
        return [self._server] if self._storage is None else [self._server, self._storage]


class _Handler(Handler):
    server: _Server

    def respond(self) -> None:
        request = self.request_read()
        fault = self.server.take(request)
        if fault is not None and fault.before is not None:
            fault.before()
        if fault is not None and fault.drop:
            self._hang_up()
            return
        reply = self.server.answer(request)
        if fault is None:
            self.send(reply)
        else:
            self._send_damaged(_damage(reply, fault), fault)

    def _send_damaged(self, reply: Reply, fault: Fault) -> None:
        if self.command == "HEAD" or fault.cut is None:
            self.send(reply)
        else:
            self.send_head(reply)
            self.wfile.write(reply.body[: fault.cut])
            if fault.during is not None:
                fault.during()
            self._hang_up()
        announced = reply.headers.get("Content-Length", str(len(reply.body)))
        if self.command != "HEAD" and announced != str(len(reply.body)):
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        close(self.connection)


class _Server(Server):
    def __init__(self, answer: Callable[[Request], Reply], take: Callable[[Request], Fault | None]) -> None:
        super().__init__(answer, handler=_Handler)
        self.take = take


def _damage(reply: Reply, fault: Fault) -> Reply:
    headers = dict(fault.headers) if fault.status is not None else {**reply.headers, **fault.headers}
    body = reply.body if fault.body is None else fault.body
    if fault.status is not None and fault.body is None:
        body = b'{"error": "damaged"}'
    damaged = Reply(status=fault.status or reply.status, headers=headers, body=body)
    return damaged if fault.change is None else fault.change(damaged)
