"""What a hub may cost: bytes, nesting, pages and time of its answers, whatever it sends and however slowly.

The waits of the HTTP library begin anew with every byte that comes, so a hub that drips could hold a command for
ever. Calls that end with an answer's headers or a whole listing run in a thread that is waited for; the bytes of an
answer are counted and timed as they come. A file's content is bounded by its recorded size and a least rate
(``forgepack.hub.transfer``) instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from forgepack.canonical import check_bounds
from forgepack.errors import LimitError
from forgepack.hub.faults import ENCODED, OVERSIZED, REPEATED, SLOW, HubFaultError
from forgepack.limits import HUB_ANSWER, HUB_ANSWER_WAITS, HUB_PAGES, HUB_REQUESTS

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises; HubFaultError (``hub-slow``) when it takes longer.

    Work that is given up goes on in its thread until its socket's own wait ends; its result is dropped.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as err:  # noqa: BLE001 - raised again by the thread that waits
            future.set_exception(err)

    threading.Thread(target=run, daemon=True, name="forgepack-hub").start()
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        if future.done():
            raise
        raise HubFaultError(SLOW, found=f"no end after {seconds:g} s") from None


class Watch:
    """Counts the requests of one session and the pages of a listing; knows how long an answer may take."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.seconds = timeout * HUB_ANSWER_WAITS
        self._left = HUB_REQUESTS
        self._pages: set[str] | None = None

    def begin_listing(self) -> None:
        """Count pages from now on; the same page twice is a listing without end."""
        self._pages = set()

    def end_listing(self) -> None:
        """Count pages no longer."""
        self._pages = None

    def count(self, url: str) -> None:
        """Count a request; HubFaultError for one too many, or for a page of the listing that was there before."""
        self._left -= 1
        if self._left < 0:
            raise HubFaultError(REPEATED, found=f"more than {HUB_REQUESTS} requests")
        if self._pages is None:
            return
        if url in self._pages:
            raise HubFaultError(REPEATED, found="a page leads to one that was there before")
        self._pages.add(url)
        if len(self._pages) > HUB_PAGES:
            raise HubFaultError(REPEATED, found=f"more than {HUB_PAGES} pages")


def _demand_identity(response: Any) -> None:
    """Raise HubFaultError unless the answer's bytes are as they are meant: packed ones can grow without bound."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise HubFaultError(ENCODED, found=f"Content-Encoding {encoding[:40]}")


def read_answer(response: Any, seconds: float) -> None:
    """Read an answer that is not a file's content into ``response.content``; HubFaultError over a bound."""
    _demand_identity(response)
    response.stream = bounded_stream(response.stream, seconds)
    body = response.read()
    try:
        check_bounds(body, where="")
    except LimitError as err:
        raise HubFaultError(OVERSIZED, expected=err.expected, found=err.found or "") from err


def bounded_stream(stream: Any, seconds: float) -> Any:
    """Return the bytes of an answer as the HTTP library takes them, counted and timed."""
    from forgepack.hub.faults import http_library

    class Bounded(http_library().SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            end, count = time.monotonic() + seconds, 0
            for chunk in stream:
                count += len(chunk)
                if count > HUB_ANSWER:
                    found = f"more than {HUB_ANSWER} bytes"
                    raise HubFaultError(OVERSIZED, expected=f"at most {HUB_ANSWER} bytes", found=found)
                if time.monotonic() > end:
                    raise HubFaultError(SLOW, found=f"{count} bytes in {seconds:g} s, and no end")
                yield chunk

        def close(self) -> None:
            stream.close()

    return Bounded()
