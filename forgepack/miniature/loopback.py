"""A hub on loopback, good enough for the real huggingface_hub client: serves folders at pinned commits.

``forgepack demo`` fetches the miniature from it, and the tests damage its answers through ``fault``. Standard
library only, one thread a connection, HTTP/1.1 with a Content-Length on every answer. Of the hub's API it has
what a pinned download asks for: model info, tree (paged on demand), resolve (HEAD and GET with ranges, LFS
headers, a second origin for storage), gated and private repositories, and the hub's X-Error-Code.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from forgepack.miniature.loopback_routes import route
from forgepack.miniature.loopback_shelf import Content, Reply, Request, ServedRepo, Shelf


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
        self._server = _Server(self, "hub")
        self._storage = _Server(self, "storage") if storage else None
        self.url = self._server.url + prefix
        storage_url = self._storage.url if self._storage else None
        self.shelf = Shelf(url=self.url, storage_url=storage_url, page=page, prefix=prefix)

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
        return self.shelf.add(repo, commit, files)

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
            server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers():
            server.stop()

    def _servers(self) -> list[_Server]:
        return [self._server] if self._storage is None else [self._server, self._storage]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: LoopbackHub, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        self.name = name
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._open: set[socket.socket] = set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self._open):
            _close(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that went away is no news."""


def _close(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing: the library never prints."""

    def version_string(self) -> str:
        return "forgepack-loopback"

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub = self.server.hub
        request = Request(method=self.command, path=self.path, headers=headers, origin=self.server.name)
        fault = hub.take(request)
        if fault is not None and fault.before is not None:
            fault.before()
        if fault is not None and fault.drop:
            self._hang_up()
            return
        reply = route(hub.shelf, request)
        self._send(reply if fault is None else _damage(reply, fault), fault)

    def _send(self, reply: Reply, fault: Fault | None) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            if value != "":
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is None or fault.cut is None:
            self.wfile.write(reply.body)
        else:
            self.wfile.write(reply.body[: fault.cut])
            if fault.during is not None:
                fault.during()
            self._hang_up()
        if "Content-Length" in reply.headers and reply.headers["Content-Length"] != str(len(reply.body)):
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        _close(self.connection)


def _damage(reply: Reply, fault: Fault) -> Reply:
    headers = dict(fault.headers) if fault.status is not None else {**reply.headers, **fault.headers}
    body = reply.body if fault.body is None else fault.body
    if fault.status is not None and fault.body is None:
        body = b'{"error": "damaged"}'
    damaged = Reply(status=fault.status or reply.status, headers=headers, body=body)
    return damaged if fault.change is None else fault.change(damaged)
