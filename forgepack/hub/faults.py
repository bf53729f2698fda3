"""Every way in which a hub or the network fails, as one HubError with a stable code."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from forgepack.errors import ForgepackError, HubError

_NETWORK = "check the network, HF_ENDPOINT and the proxy settings, then run the same command: it resumes"
_TOKEN = "set HF_TOKEN or run `hf auth login` with an account that may read the repository"  # noqa: S105
_PORTAL = "a captive portal or a proxy may answer in the hub's place: open the endpoint in a browser"
_MIRROR = "try another mirror or the hub itself (HF_ENDPOINT); a proxy may answer in the hub's place"
_LATER = "run the same command later: what has landed is kept and resumed"


class TransientHubError(HubError):
    """A failure that may pass: ask again, after ``retry_after`` seconds where the server named a time."""

    retry_after: float | None = None


class RangeRefusedError(TransientHubError):
    """The server can't go on from the bytes we have: start the file again without a Range."""


class RequestFailedError(Exception):
    """A failed request on its way through the client, whose own retry loop sleeps without a message.

    That loop knows the HTTP library's errors and statuses, not this class; ``translated`` unwraps it. Either
    ``__cause__`` is the library's error or ``status`` and ``headers`` are the answer's.
    """

    def __init__(self, status: int = 0, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers or {}


class HubFaultError(Exception):
    """A fault that this tool's guard found in an answer, on its way through the client to ``translated``.

    The client's loops and handlers know the HTTP library's errors, not this class.
    """

    def __init__(self, fault: Fault, *, found: str, expected: str | None = None) -> None:
        super().__init__(found)
        self.fault = fault
        self.found = found
        self.expected = expected


class Fault(NamedTuple):
    """One kind of failure: its code, its sentence, the next step, and whether asking again may help."""

    code: str
    what: str
    hint: str
    transient: bool = False


_BY_ERROR_CODE = {
    "GatedRepo": Fault("hub-gated", "the repository is gated and this account has no access", _TOKEN),
    "RepoNotFound": Fault("hub-repo-missing", "the repository does not exist, or is private", _TOKEN),
    "RevisionNotFound": Fault(
        "hub-revision-missing",
        "the repository has no such commit",
        "check the commit in the profile or --revision",
    ),
    "EntryNotFound": Fault(
        "hub-file-missing", "the commit has no such file", "check the profile's files and the commit"
    ),
}
_BY_STATUS = {
    401: Fault("hub-unauthorized", "the hub refuses the token, or demands one", _TOKEN),
    403: Fault("hub-forbidden", "the hub forbids access", _TOKEN),
    404: Fault("hub-not-found", "the hub returned 404", "check HF_ENDPOINT and the repository"),
    408: Fault("hub-timeout", "the hub gave up waiting", _NETWORK, transient=True),
    416: Fault("hub-range", "the hub can't serve the range that is missing", _LATER, transient=True),
    425: Fault("hub-unavailable", "the hub is not ready", _LATER, transient=True),
    429: Fault("hub-rate-limit", "the hub limits the rate of requests", _LATER, transient=True),
}
_DISABLED = Fault("hub-disabled", "the hub has disabled the repository", "ask the repository's owner")
_SERVER = Fault("hub-unavailable", "the hub answers with a server error", _LATER, transient=True)
_REDIRECT = Fault("hub-redirect", "the hub redirects to an address that can't be followed", _NETWORK)
_CLIENT = Fault(
    "hub-client",
    "the hub's client failed on this machine",
    "check the token file (HF_TOKEN_PATH, or token in HF_HOME)",
)
SETUP = Fault(
    "hub-setup",
    "the hub's client can't be set up on this machine",
    "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
)
TOKEN_FILE = Fault(
    "hub-token",
    "the token of HF_TOKEN_PATH (in HF_HOME: token) can't be sent in a request",
    "run `hf auth login` again",
)
BAD_ANSWER = Fault("hub-bad-answer", "the hub's answer is not what its API promises", _PORTAL)
SLOW = Fault("hub-slow", "the hub's answer does not end", _MIRROR)
OVERSIZED = Fault("hub-oversized", "the hub's answer is over the limit", _MIRROR)
REPEATED = Fault("hub-endless", "the hub leads from page to page without end", _MIRROR)
ENCODED = Fault("hub-encoded", "the hub compresses its answer, though it was asked not to", _MIRROR)
EXPIRED = Fault("hub-forbidden", "the storage host behind the hub forbids access", _LATER, transient=True)
_OTHER = Fault("hub-status", "the hub answers with an unexpected status", _NETWORK)


def status_fault(status: int, headers: Mapping[str, str]) -> Fault:
    """Return the fault of an HTTP status of 300 or more; the hub's X-Error-Code is more exact than the status."""
    named = _BY_ERROR_CODE.get(headers.get("X-Error-Code", ""))
    if named is not None:
        return named
    if headers.get("X-Error-Message") == "Access to this resource is disabled.":
        return _DISABLED
    if status >= 500:
        return _SERVER
    if status < 400:
        return _REDIRECT
    return _BY_STATUS.get(status, _OTHER)


def status_error(status: int, headers: Mapping[str, str], where: str) -> HubError:
    """Return the error of an HTTP answer; one that may pass carries the server's Retry-After."""
    fault, found = status_fault(status, headers), f"HTTP {status}"
    if status == 416:
        return RangeRefusedError(fault.what, where=where, found=found, hint=fault.hint, code=fault.code)
    error = fault_error(fault, where, found=found)
    if isinstance(error, TransientHubError):
        seconds = headers.get("Retry-After", "")
        error.retry_after = float(seconds) if re.fullmatch(r"\d{1,6}", seconds) else None
    return error


def fault_error(fault: Fault, where: str, *, found: str | None = None, expected: str | None = None) -> HubError:
    """Return ``fault`` as a HubError, or as a TransientHubError when asking again may help."""
    kind = TransientHubError if fault.transient else HubError
    return kind(fault.what, where=where, expected=expected, found=found, hint=fault.hint, code=fault.code)


def http_library() -> ModuleType:
    """Return the HTTP library that huggingface_hub is built on (httpx2 in 2.x), from where its errors come."""
    from huggingface_hub import errors

    base = next(c for c in errors.HfHubHTTPError.__mro__ if c.__name__ == "HTTPError")
    return importlib.import_module(base.__module__.partition(".")[0])


@contextmanager
def translated(where: str, clean: Callable[[str], str] = str) -> Iterator[None]:
    """Turn whatever the client and its HTTP library raise into a HubError; ``clean`` hides secrets in its text.

    Only calls of the client may stand in this block: HfHubHTTPError is an OSError, so an error of the local disk
    would be taken for the hub's.
    """
    from huggingface_hub import errors

    http = http_library()
    families = (
        *(OSError, http.HTTPError, http.InvalidURL, http.StreamError),
        *(errors.DeviceCodeError, errors.OIDCError),
        *(ValueError, KeyError, TypeError, AttributeError, AssertionError),
        *(RecursionError, MemoryError),
    )
    try:
        yield
    except ForgepackError:
        raise
    except RequestFailedError as err:
        if err.__cause__ is None:
            raise status_error(err.status, err.headers, where) from None
        raise hub_error(err.__cause__, where, clean) from err
    except HubFaultError as err:
        raise fault_error(err.fault, where, expected=err.expected, found=clean(err.found)) from err
    except families as err:
        raise hub_error(err, where, clean) from err


def hub_error(err: BaseException, where: str, clean: Callable[[str], str] = str) -> HubError:
    """Return the HubError for an exception of the client or of its HTTP library."""
    from huggingface_hub import errors

    response = getattr(err, "response", None)
    if isinstance(err, errors.HfHubHTTPError) and response is not None:
        return status_error(response.status_code, response.headers, where)
    text = clean(f"{type(err).__name__}: {err}")[:300]
    return fault_error(_exception_fault(err), where, found=text)


def _exception_fault(err: BaseException) -> Fault:
    from huggingface_hub import errors

    http = http_library()
    table: tuple[tuple[type[BaseException], Fault], ...] = (
        (
            errors.OfflineModeIsEnabled,
            Fault("hub-offline", "HF_HUB_OFFLINE forbids requests", "unset HF_HUB_OFFLINE"),
        ),
        (
            http.TimeoutException,
            Fault("hub-timeout", "the hub does not answer in time", _NETWORK, transient=True),
        ),
        (http.TooManyRedirects, _REDIRECT),
        (http.UnsupportedProtocol, _REDIRECT),
        (http.LocalProtocolError, _CLIENT),
        (http.InvalidURL, _REDIRECT),
        (
            http.TransportError,
            Fault("hub-unreachable", "the hub can't be reached, or cut the connection", _NETWORK, transient=True),
        ),
        (
            http.DecodingError,
            Fault("hub-encoded", "the hub's answer can't be decoded", _NETWORK, transient=True),
        ),
        (errors.DeviceCodeError, Fault("hub-token", "the hub's token can't be read", _TOKEN)),
        (errors.OIDCError, Fault("hub-token", "the hub's token can't be read", _TOKEN)),
        (json.JSONDecodeError, Fault("hub-not-json", "the hub's answer is not JSON", _PORTAL)),
        (UnicodeDecodeError, Fault("hub-not-json", "the hub's answer is not JSON", _PORTAL)),
        (RecursionError, Fault(OVERSIZED.code, "the hub's answer is nested too deeply", _MIRROR)),
        (MemoryError, Fault(OVERSIZED.code, "the hub's answer takes more memory than there is", _MIRROR)),
        (OSError, _CLIENT),
    )
    for kind, fault in table:
        if isinstance(err, kind):
            return fault
    return BAD_ANSWER
