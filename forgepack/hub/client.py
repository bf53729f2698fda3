"""The hub as this tool sees it: the files of a commit with their digests, and the bytes of a file from an offset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlsplit

from forgepack import __version__
from forgepack.artifacts.lock import is_commit, is_sha256
from forgepack.errors import HubError, IdentityError, UsageError
from forgepack.hub.bounded import Watch, within
from forgepack.hub.environment import import_client
from forgepack.hub.faults import (
    BAD_ANSWER,
    EXPIRED,
    OVERSIZED,
    TOKEN_FILE,
    HubFaultError,
    RangeRefusedError,
    fault_error,
    status_error,
    translated,
)
from forgepack.hub.session import hub_session, origin_of
from forgepack.limits import HUB_FILES, HUB_LISTING_WAITS

LOOK_UP_TIMEOUT = 5.0
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """How to reach the hub. ``endpoint`` None is the client's own (HF_ENDPOINT when it was imported).

    ``token`` None takes HF_TOKEN or the client's store, False sends none. ``timeout`` is the longest wait for a
    connection, an answer or more bytes, in seconds.
    """

    endpoint: str | None = None
    token: str | bool | None = None
    timeout: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """The hub's record of one file at one commit: ``sha256`` for a file in LFS, else None; ``blob_id`` of git.

    For a file in LFS ``blob_id`` is that of its pointer, so ``sha256`` decides; else the git blob id does.
    """

    path: str
    size: int
    sha256: str | None
    blob_id: str

    @property
    def etag(self) -> str:
        """The digest that names the content."""
        return self.sha256 or self.blob_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Bytes on their way: ``chunks`` start at byte ``start`` of the file; ``length`` is promised, or None."""

    start: int
    length: int | None
    chunks: Iterator[bytes]


class HubClient:
    """A hub at one endpoint, used as a context manager.

    Every failure is a HubError, or IdentityError for a wrong commit; no token and no signed address appears in it.
    """

    def __init__(self, settings: HubSettings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._authorization = ""
        self._watch = Watch(settings.timeout)

    def __enter__(self) -> Self:
        if self._settings.endpoint is not None:
            check_endpoint(self._settings.endpoint)
        constants = import_client()
        self.endpoint = check_endpoint(self._settings.endpoint or constants.ENDPOINT)
        self._session = self._stack.enter_context(hub_session(self.endpoint, self._watch))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def list_files(self, repo: str, commit: str) -> dict[str, HubFile]:
        """Return every file of the commit by path, as the hub records it. Directories are left out."""
        from huggingface_hub import HfApi

        where = self._where(repo, commit)
        out: dict[str, HubFile] = {}

        def read() -> None:
            api = HfApi(endpoint=self.endpoint, token=self._settings.token, **self._library())
            self._headers()
            for entry in api.list_repo_tree(repo, recursive=True, revision=commit):
                file = _parse_entry(entry)
                if file is not None and out.setdefault(file.path, file) != file:
                    raise fault_error(BAD_ANSWER, where, found=f"two records of {file.path!r}")
                if len(out) > HUB_FILES:
                    raise HubFaultError(OVERSIZED, expected=f"at most {HUB_FILES} files", found="more")

        self._watch.begin_listing()
        try:
            with self._calls(where):
                within(self._settings.timeout * HUB_LISTING_WAITS, read)
        finally:
            self._watch.end_listing()
        return out

    @contextmanager
    def open(self, repo: str, commit: str, file: HubFile, offset: int) -> Iterator[Answer]:
        """Ask for the file from byte ``offset`` on and yield the answer.

        TransientHubError may pass when asked again, RangeRefusedError when asked from 0; any other is final.
        """
        where = f"{self._where(repo, commit)}: {file.path}"
        with ExitStack() as stack:
            with self._calls(where):
                location = self._locate(repo, commit, file)
                headers = {**self._headers(), "Accept-Encoding": "identity"}
                if offset:
                    headers["Range"] = f"bytes={offset}-"
                request = self._session().stream("GET", location, headers=headers, follow_redirects=True)
                response = stack.enter_context(request)
            self._refuse_expired(response, where)
            start = _start_of(response, offset, file, where)
            yield Answer(start=start, length=_length_of(response), chunks=self._chunks(response, where))

    def name_commit(self, repo: str, revision: str) -> str | None:
        """Return the commit that a branch, tag or short hash points to now, or None: one request, no retry."""
        from huggingface_hub import HfApi

        try:
            with self._calls(repo):
                api = HfApi(endpoint=self.endpoint, token=self._settings.token, **self._library())
                timeout = min(LOOK_UP_TIMEOUT, self._settings.timeout)
                sha = api.model_info(repo, revision=revision, timeout=timeout).sha
        except HubError:
            return None
        return sha if isinstance(sha, str) and is_commit(sha) else None

    def _locate(self, repo: str, commit: str, file: HubFile) -> str:
        """Ask where the bytes are now (signed addresses expire) and compare the answer with the record."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(repo, file.path, revision=commit, endpoint=self.endpoint)
        found = get_hf_file_metadata(
            url,
            token=self._settings.token,
            timeout=self._settings.timeout,
            endpoint=self.endpoint,
            **self._library(),
        )
        where = f"{self._where(repo, commit)}: {file.path}"
        if found.commit_hash is None:
            raise fault_error(BAD_ANSWER, where, expected="the header X-Repo-Commit", found="none")
        if found.commit_hash != commit:
            raise IdentityError(
                "the hub serves another commit than the one asked for",
                where=where,
                expected=commit,
                found=str(found.commit_hash)[:80],
                code="wrong-commit",
            )
        etag = found.etag or ""
        if file.sha256 is not None and is_sha256(etag) and etag != file.sha256:
            raise _contradiction(where, f"sha256 {file.sha256}", f"sha256 {etag}")
        if found.size is not None and found.size != file.size:
            raise _contradiction(where, f"{file.size} bytes", f"{found.size} bytes")
        return str(found.location)

    def _refuse_expired(self, response: Any, where: str) -> None:
        """Raise for a storage host's 403: its signed address is over, and a new one may do."""
        if response.status_code == 403 and origin_of(str(response.url)) != origin_of(self.endpoint):
            raise fault_error(EXPIRED, where, found="HTTP 403 from the storage host")

    def _chunks(self, response: Any, where: str) -> Iterator[bytes]:
        chunks = response.iter_bytes()
        while True:
            with self._calls(where):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def _calls(self, where: str) -> Any:
        return translated(where, self._clean)

    def _clean(self, text: str) -> str:
        """Return a text without the token, and without user and query of any address in it."""
        secret = self._authorization.removeprefix("Bearer ").strip()
        if secret:
            text = text.replace(secret, "***")
        text = re.sub(r"(?<=://)[^/\s@'\"]*@", "", text)
        return re.sub(r"\?[^\s'\"]*", "", text)

    def _headers(self) -> dict[str, str]:
        from huggingface_hub.utils import build_hf_headers

        headers: dict[str, str] = build_hf_headers(token=self._settings.token, **self._library())
        self._authorization = headers.get("authorization", "")
        if not self._authorization.isascii():  # HF_TOKEN has been checked, so it came from the client's store
            raise HubFaultError(TOKEN_FILE, found="other characters")
        return headers

    def _library(self) -> dict[str, str]:
        return {"library_name": "forgepack", "library_version": __version__}

    def _where(self, repo: str, commit: str) -> str:
        return f"{self._clean(self.endpoint)}/{repo} @ {commit}"


def check_endpoint(endpoint: str) -> str:
    """Return the endpoint without a final slash; UsageError unless it is an http(s) address."""
    try:
        scheme, host, _ = origin_of(endpoint)
        valid = scheme in ("http", "https") and host != "" and not urlsplit(endpoint).query
        valid = valid and not any(char.isspace() or not char.isprintable() for char in endpoint)
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            "the hub's endpoint is not an http(s) address",
            where="HF_ENDPOINT",
            found="an address with a user" if "@" in endpoint else quote(endpoint, ":/.-_[]", errors="replace")[:80],
            hint="set HF_ENDPOINT to an address such as https://huggingface.co",
            code="endpoint",
        )
    return endpoint.rstrip("/")


def _parse_entry(entry: Any) -> HubFile | None:
    """Return the record of a file, None for a directory; ValueError when a digest or size is malformed."""
    if not hasattr(entry, "blob_id"):
        return None
    sha256 = None if entry.lfs is None else entry.lfs.sha256
    size = entry.size if entry.lfs is None else entry.lfs.size
    if type(size) is not int or size < 0 or entry.size != size:
        raise ValueError(f"size {size!r} of {entry.path!r}")
    if not is_commit(entry.blob_id) or not (sha256 is None or is_sha256(sha256)):
        raise ValueError(f"digest of {entry.path!r}")
    return HubFile(path=str(entry.path), size=size, sha256=sha256, blob_id=entry.blob_id)


def _contradiction(where: str, expected: str, found: str) -> HubError:
    return HubError(
        "the hub's listing and its file disagree (a pointer or another file may stand in its place)",
        where=where,
        expected=expected,
        found=found,
        hint="try the hub itself instead of a mirror, or run the command later",
        code="hub-contradiction",
    )


def _start_of(response: Any, offset: int, file: HubFile, where: str) -> int:
    """Return the byte that the answer starts at; raise unless it is a 200, or a 206 for the range asked for."""
    status, headers = response.status_code, response.headers
    if status == 200:
        return 0
    if status == 206:
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if found and int(found[1]) == offset and found[3] in ("*", str(file.size)) and not _encoded(headers):
            return offset
    else:
        raise status_error(status, headers, where)
    raise RangeRefusedError(
        "the hub can't serve the range that is missing",
        where=where,
        expected=f"bytes {offset}-{file.size - 1}/{file.size}",
        found=f"HTTP {status}, Content-Range {headers.get('Content-Range', 'none')[:80]}",
        hint="run the same command later, or try another mirror",
        code="hub-range",
    )


def _length_of(response: Any) -> int | None:
    text = response.headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) and not _encoded(response.headers) else None


def _encoded(headers: Any) -> bool:
    return headers.get("Content-Encoding", "identity").lower() not in ("", "identity")
