"""Variables that huggingface_hub and its HTTP library read by themselves, checked before they do.

Both raise whatever comes of a bad value, some at their import, and none names the variable. Here each is named, and
no value is shown: a proxy's address may hold a password, and a token is a secret.
"""

from __future__ import annotations

import importlib.util
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from forgepack.errors import UsageError

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_IN_HEADERS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_USER_AGENT_ORIGIN")
_SCHEMES = ("http", "https", "socks5", "socks5h")
_OURS = ("HF_", "HUGGING", "XDG_CACHE_HOME")


def import_client() -> ModuleType:
    """Check the environment, import huggingface_hub and return its constants; UsageError names the variable."""
    check_environment(os.environ)
    try:
        from huggingface_hub import constants
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as err:
        where = _named_by(str(err)) or "HF_*"
        raise _refusal(where, "huggingface_hub can't be imported with it", found=type(err).__name__) from err
    return constants  # type: ignore[no-any-return]


def check_environment(environ: Mapping[str, str]) -> None:
    """Raise UsageError for the first variable whose value no request could be made with."""
    for name in _IN_HEADERS:
        value = environ.get(name, "").strip()
        if not (value.isascii() and value.isprintable()):
            expected = "printable ASCII characters in one line"
            raise _refusal(name, "its value can't be sent in a request", expected=expected, found="other characters")
    unproxied = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    if "*" not in map(str.strip, unproxied.split(",")):  # that one stands for all hosts, and no proxy is used
        for name in sorted(environ):
            lower = name.lower()
            if lower in PROXIES and environ[name] and (name == lower or not environ.get(lower)):
                _check_proxy(name, environ[name])
    _check_certificates(environ)


def _check_proxy(name: str, value: str) -> None:
    """Demand a scheme that the HTTP library knows, a host, and the package that a SOCKS proxy needs."""
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = None, None
    scheme = "" if parts is None else parts.scheme.lower()
    if not host or any(map(str.isspace, value)) or scheme not in _SCHEMES:
        expected = f"{', '.join(_SCHEMES)}, then ://HOST:PORT"
        found = (
            f"the scheme {scheme[:20]!a}" if host and scheme not in _SCHEMES else "an address without a valid host"
        )
        raise _refusal(name, "it is not the address of a proxy", expected=expected, found=found)
    if scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        hint = f"pip install socksio, name an http:// proxy in {name}, or unset it"
        raise _refusal(name, "a SOCKS proxy needs the package socksio", found="it is not installed", hint=hint)


def _check_certificates(environ: Mapping[str, str]) -> None:
    """Load the certificates that the HTTP library would load; what it would skip in silence is refused, too."""
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if folder and not Path(folder).is_dir():
        raise _refusal("SSL_CERT_DIR", "it is not a folder of certificates", found=folder)
    if file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
        except (OSError, ValueError) as err:
            found = f"{file}: {getattr(err, 'strerror', None) or type(err).__name__}"
            raise _refusal("SSL_CERT_FILE", "no certificates can be loaded from it", found=found) from err
    if environ.get("SSLKEYLOGFILE"):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).keylog_filename = environ["SSLKEYLOGFILE"]
        except (OSError, ValueError) as err:
            raise _refusal("SSLKEYLOGFILE", "it can't be written", found=environ["SSLKEYLOGFILE"]) from err


def _named_by(text: str) -> str:
    """Return the variables of the client whose value an error's text holds, else all that are set."""
    names = [name for name in sorted(os.environ) if name.startswith(_OURS) and os.environ[name]]
    held = [name for name in names if "TOKEN" not in name and os.environ[name] in text]
    return ", ".join(held or names)


def _refusal(name: str, why: str, *, found: str, expected: str | None = None, hint: str | None = None) -> UsageError:
    return UsageError(
        f"the variable {name} can't be used: {why}",
        where=name,
        expected=expected,
        found=found,
        hint=hint or f"correct {name}, or unset it",
        code="environment",
    )
