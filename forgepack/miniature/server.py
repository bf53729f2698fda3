"""A server on loopback: one function answers every request.

Standard library only, one thread a connection, HTTP/1.1 with a Content-Length on every answer.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; a header with an empty value is not sent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer."""
        self.respond()

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.respond()

    def log_message(self, *_: Any) -> None:
        """Say nothing: the library never prints."""

    def version_string(self) -> str:
        """Name the server as this tool's, without a version."""
        return "forgepack-loopback"

    def respond(self) -> None:
        """Answer the request that was read."""
        self.send(self.server.answer(self.request_read()))

    def request_read(self) -> Request:
        """Return the request that was read."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(method=self.command, path=self.path, headers=headers)

    def send(self, reply: Reply) -> None:
        """Send a whole answer."""
        self.send_head(reply)
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def send_head(self, reply: Reply) -> None:
        """Send status and headers."""
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            if value != "":
                self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    """Used as a context manager; ``url`` is its address, and after the block nothing listens there."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Request], Reply], *, handler: type[Handler] = Handler) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self._open):
            close(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that the end of the block can close it."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client may go away."""


def close(connection: socket.socket) -> None:
    """Close a connection in both directions; one that is closed already is left as it is."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
