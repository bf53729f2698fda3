"""Hubs that answer too much, too slowly, too deeply or without end: one error of the hub's, in bounded time."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from forgepack.errors import ForgepackError, HubError
from forgepack.hub import FetchRequest, HubSettings, fetch_checkpoint
from forgepack.hub.report import RetryPolicy
from forgepack.limits import HUB_ANSWER, HUB_ANSWER_WAITS
from forgepack.miniature.server import Reply
from tests.hub.bench import COMMIT, PROFILE, REPO, WEIGHTS, WEIGHTS_URL, Bench

TREE = f"/api/models/{REPO}/tree/{COMMIT}"
TIMEOUT = 0.2


def refused(bench: Bench) -> ForgepackError:
    """Return the error of a fetch that must leave nothing that looks complete."""
    with pytest.raises(ForgepackError) as caught:
        bench.fetch(policy=RetryPolicy(attempts=2))
    assert not bench.complete()
    return caught.value


LISTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "nested without end": ({"body": b"[" * 200_000}, "hub-oversized"),
    "lists without end": ({"body": b"[" + b"[]," * 3_000_000 + b"[]]"}, "hub-oversized"),
    "blanks without end": ({"body": b" " * (HUB_ANSWER + 1)}, "hub-oversized"),
    "packed": ({"body": gzip.compress(b" " * (64 << 20)), "headers": {"Content-Encoding": "gzip"}}, "hub-encoded"),
    "packed as told by no one": ({"body": b"[]", "headers": {"Content-Encoding": "br"}}, "hub-encoded"),
    "headers of megabytes": ({"headers": {"X-Long": "x" * (2 << 20)}}, "hub-unreachable"),
    "a thousand redirects": ({"status": 302, "headers": {"Location": TREE}}, "hub-redirect"),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_that_is_too_much_is_the_hubs_fault(bench: Bench, name: str) -> None:
    """Exit 6, with the hub's address, whatever comes."""
    damage, code = LISTINGS[name]
    bench.hub.fault("GET", "/tree/", times=9999, **damage)
    error = refused(bench)
    assert (code, 6, True) == (error.code, error.exit_code, bench.hub.url in str(error.where))


def test_pages_that_never_repeat_are_counted(bench: Bench) -> None:
    """A thousand pages are a listing; one more is none."""
    seen = iter(range(100_000))

    def turned(reply: Reply) -> Reply:
        link = f'<{bench.hub.url}{TREE}?cursor={next(seen)}&recursive=true>; rel="next"'
        return Reply(status=200, headers={"Content-Type": "application/json", "Link": link}, body=b"[]")

    bench.hub.fault("GET", "/tree/", times=99_999, change=turned)
    error = refused(bench)
    assert ("hub-endless", 1000) == (error.code, len(bench.hub.log))


ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "more than the record": ({"status": 200, "body": WEIGHTS + b"x"}, "hub-long"),
    "less than the record": ({"status": 200, "body": WEIGHTS[:-1]}, "hub-short"),
    "no body": ({"status": 200, "body": b"", "headers": {"Content-Length": "0"}}, "hub-short"),
    "another range": (
        {"status": 206, "body": WEIGHTS, "headers": {"Content-Range": f"bytes 9-{len(WEIGHTS)}/{len(WEIGHTS)}"}},
        "hub-range",
    ),
    "a length that lies": ({"headers": {"Content-Length": "999999999"}}, "hub-long"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_file_that_is_not_what_was_asked_for_is_refused(bench: Bench, name: str) -> None:
    """Whatever comes in a file's place, nothing over its recorded size is kept."""
    damage, code = ANSWERS[name]
    bench.hub.fault("GET", WEIGHTS_URL, times=99, **damage)
    error = refused(bench)
    assert (code, True) == (error.code, isinstance(error, HubError))


def test_a_range_that_brings_more_is_refused(bench: Bench) -> None:
    """The rest is asked for after a cut, and the answer goes on beyond it."""
    bench.hub.fault("GET", WEIGHTS_URL, cut=100_000)
    bench.hub.fault(
        "GET",
        WEIGHTS_URL,
        times=99,
        change=lambda reply: Reply(status=206, headers=reply.headers, body=reply.body + b"x" * 1000),
    )
    assert "hub-long" == refused(bench).code


class _Dripping(BaseHTTPRequestHandler):
    """Begins an answer, then sends a byte at a time, for as long as the other side listens."""

    server: _DrippingServer

    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        if self.server.headers_end:
            self.wfile.write(b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[")
        while not self.server.stopped.wait(TIMEOUT / 4):
            try:
                self.wfile.write(b" " if self.server.headers_end else b"X-A: b\r\n")
            except OSError:
                return

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _DrippingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *, headers_end: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Dripping)
        self.headers_end = headers_end
        self.stopped = threading.Event()


@pytest.fixture(params=[True, False], ids=["body", "headers"])
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a hub that drips its body, or its headers, for ever."""
    server = _DrippingServer(headers_end=request.param)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.stopped.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_that_drips_for_ever_ends(bench: Bench, dripping: str) -> None:
    """Each byte comes in time and the answer never ends: told as that, not asked again."""
    request = FetchRequest(profile=PROFILE, out=bench.out)
    settings = HubSettings(endpoint=dripping, token=False, timeout=TIMEOUT)
    with pytest.raises(HubError) as caught:
        fetch_checkpoint(request, settings=settings, effects=bench.effects)
    assert ("hub-slow", []) == (caught.value.code, bench.sleeps)
    assert f"{TIMEOUT * HUB_ANSWER_WAITS:g} s" in str(caught.value.found)


def test_a_page_of_a_real_size_is_read(bench: Bench) -> None:
    """A thousand entries are far below every bound."""
    entry = {"type": "file", "oid": "0" * 40, "size": 1, "path": ""}
    body = json.dumps([{**entry, "path": f"extra/{n}.txt"} for n in range(1000)]).encode()

    def longer(reply: Reply) -> Reply:
        return Reply(status=200, headers=reply.headers, body=reply.body[:-1] + b"," + body[1:])

    bench.hub.fault("GET", "/tree/", change=longer)
    bench.fetch()
    assert bench.complete()
