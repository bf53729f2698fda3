"""huggingface_hub's HTTP session for the time of one download: bounded, quiet, and its token kept at home.

The client lists without a timeout, retries some requests with sleeps of its own and reports them on
stderr, asks the hub for a list of known agents before the first request, and sends the token to any address that
a listing's ``Link`` header names. All of it is process-wide, so it is changed on entry and put back on exit: one
download at a time in a process.

Private names of huggingface_hub used here, each under a canary test (tests/hub/test_canaries.py):
``utils._http._GLOBAL_CLIENT_FACTORY``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from forgepack.hub.bounded import Watch, read_answer, within
from forgepack.hub.faults import SETUP, HubFaultError, RequestFailedError, http_library, status_fault

_PORTS = {"http": 80, "https": 443}
_WAITS = ("connect", "read", "write", "pool")

Origin = tuple[str, str, int]


def origin_of(url: str) -> Origin:
    """Return (scheme, host, port) of a URL; ValueError when it has no valid port."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)


@contextmanager
def hub_session(endpoint: str, watch: Watch) -> Iterator[Callable[[], Any]]:
    """Yield the client's ``get_session``, changed so that every request and answer is bounded by ``watch``.

    No request to another origin than the endpoint's carries the token. On exit the client's own settings are back
    and its connections closed.
    """
    from huggingface_hub import constants, get_session, set_client_factory
    from huggingface_hub.utils import _http, logging

    factory = _http._GLOBAL_CLIENT_FACTORY
    telemetry, verbosity = constants.HF_HUB_DISABLE_TELEMETRY, logging.get_verbosity()
    set_client_factory(lambda: _guard_client(_made(factory), endpoint, watch))
    constants.HF_HUB_DISABLE_TELEMETRY = True
    if verbosity == logging.WARNING:  # the default; another level that was chosen stays
        logging.set_verbosity_error()
    try:
        yield get_session
    finally:
        set_client_factory(factory)
        constants.HF_HUB_DISABLE_TELEMETRY = telemetry
        logging.set_verbosity(verbosity)


def _made(factory: Callable[[], Any]) -> Any:
    """Return a new HTTP client; what a proxy's or a certificate's variable does to it is this machine's fault."""
    try:
        return factory()
    except (ImportError, ValueError, TypeError, OSError) as err:
        raise HubFaultError(SETUP, found=type(err).__name__) from err


def _guard_client(client: Any, endpoint: str, watch: Watch) -> Any:
    """Bound a new HTTP client's answers, waits and number of requests, and keep the token within the origin.

    Failures that may pass leave it as RequestFailedError: when to ask again is decided by this tool alone.
    """
    home = origin_of(endpoint)
    send = client.send
    transport_error = http_library().TransportError

    def guard(request: Any) -> None:
        asked = request.extensions.get("timeout") or {}
        request.extensions["timeout"] = {kind: asked.get(kind) or watch.timeout for kind in _WAITS}
        request.headers["accept-encoding"] = "identity"
        if origin_of(str(request.url)) != home:
            request.headers.pop("authorization", None)
            request.headers.pop("cookie", None)

    def send_once(request: Any, *, stream: bool = False, **options: Any) -> Any:
        watch.count(str(request.url))
        try:
            response = within(watch.seconds, lambda: send(request, stream=True, **options))
            if response.status_code >= 400 and status_fault(response.status_code, response.headers).transient:
                response.close()
                raise RequestFailedError(response.status_code, response.headers)
            try:
                if not stream:
                    read_answer(response, watch.seconds)
            except BaseException:
                response.close()
                raise
        except transport_error as err:
            raise RequestFailedError from err
        return response

    hooks = client.event_hooks
    client.event_hooks = {**hooks, "request": [*hooks.get("request", []), guard]}
    client.send = send_once
    return client
