"""Talk to one of this package's modules in a child process that may crash, hang or run wild without harm.

Requests go to the child's stdin and answers come back on its stdout, one JSON value a line; whatever Apple's
libraries print goes to stderr, whose last part is kept. The child says that it is ready once Core AI has been
imported, so a broken platform is never taken for a damaged asset.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import forgepack
from forgepack import errors
from forgepack.canonical import JsonBounds, dump_compact, parse_object
from forgepack.child_environment import child_environment
from forgepack.errors import CorruptError, ForgepackError, PlatformError
from forgepack.limits import CHILD_REPLY, CHILD_TOKENS

READY = b"ready\n"
MAX_REPLY = CHILD_REPLY
MESSAGE = JsonBounds(size=CHILD_REPLY, tokens=CHILD_TOKENS)
START_SECONDS = 120.0
_TAIL = 16 << 10
_ROOT = Path(forgepack.__file__).resolve().parent.parent


class DamagedAssetError(CorruptError):
    """An asset that Core AI's reader could not read: it crashed, hung, ran out of memory or answered nonsense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a child in bytes: its address space and the largest file that it may write."""

    memory: int
    file_size: int = 1 << 20


class Child:
    """A running child. Used as a context manager; on leaving it is killed with all that it started.

    It is not waited for before it is asked; PlatformError is raised then if it did not start. ``subject`` is the
    asset that a failure is blamed on; ``scratch`` becomes its folder for temporary files.
    """

    def __init__(self, module: str, *, subject: str, limits: Limits, scratch: Path | None = None) -> None:
        self._subject = subject
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._noise = bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_ROOT,
            env=child_environment(os.environ),
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_noise, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        scratch_name = None if scratch is None else str(scratch)
        self._send({"memory": limits.memory, "file_size": limits.file_size, "scratch": scratch_name})
        self._ready = False

    @property
    def noise(self) -> str:
        """The last part of what was printed, undecodable bytes replaced."""
        return bytes(self._noise).decode("utf-8", "replace")

    def ask(self, request: Mapping[str, Any], *, seconds: float, subject: str | None = None) -> dict[str, Any]:
        """Return the child's answer; DamagedAssetError when none comes, or the ForgepackError that it answered.

        ``subject`` is the asset that a failure is blamed on from now on.
        """
        if subject is not None:
            self._subject = subject
        self._send(request)
        if not self._ready:
            self._expect_ready()
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty as err:
            raise self._damaged(f"no answer within {seconds:g} s", code="asset-timeout") from err
        if not line:
            raise self._damaged(self._ending(), code="asset-crash")
        return self._parse(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child and all that it started."""
        self._kill()

    def _send(self, value: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the child has died: its end is met when the answer is read
            self._process.stdin.write(dump_compact(value) + b"\n")
            self._process.stdin.flush()

    def _expect_ready(self) -> None:
        try:
            line = self._answers.get(timeout=START_SECONDS)
        except queue.Empty:
            line = b""
        if line == READY:
            self._ready = True
            return
        ending = self._ending()
        if line:
            self._parse(line)  # raises the error that kept the child from starting
        raise PlatformError(
            "Core AI's reader did not start",
            found=_last_line(self.noise) or ending,
            hint="run forgepack again; if it persists, reinstall coreai-core",
            code="reader-start",
        )

    def _read_answers(self, stream: IO[bytes]) -> None:
        """Queue each line; an empty one stands for the end, or for an answer over the limit."""
        with stream:
            while (line := stream.readline(MAX_REPLY)).endswith(b"\n"):
                self._answers.put(line)
        self._answers.put(b"")

    def _read_noise(self, stream: IO[bytes]) -> None:
        with stream:
            while block := os.read(stream.fileno(), 1 << 16):
                self._noise += block
                del self._noise[:-_TAIL]

    def _kill(self) -> int:
        """End the child and everything that it started, unless it has ended; return its exit status."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        for reader in self._readers:
            reader.join()
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        return code

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # it has closed its output, so its own end is near
        code = self._kill()
        if code >= 0:
            return f"it ended with exit code {code}"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"

    def _damaged(self, found: str, *, code: str) -> DamagedAssetError:
        line = _last_line(self.noise)
        return DamagedAssetError(
            "the asset can't be read",
            where=self._subject,
            expected="an asset that Core AI's reader accepts",
            found=f"{found}: {line}" if line else found,
            hint="restore the package from its source and verify it again",
            code=code,
        )

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            reply = parse_object(line, where="reply", bounds=MESSAGE)
        except ForgepackError as err:
            raise self._damaged("no readable answer", code="asset-crash") from err
        error = reply.get("error")
        if isinstance(error, dict):
            raise error_from_json(error)
        return reply


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def error_to_json(err: ForgepackError) -> dict[str, Any]:
    """Return a ForgepackError as JSON values, for the pipe."""
    fields = {name: getattr(err, name) for name in ("what", "where", "expected", "found", "hint", "code")}
    return {"class": type(err).__name__, **fields}


def error_from_json(raw: Mapping[str, Any]) -> ForgepackError:
    """Return the error that ``error_to_json`` wrote; an unknown class becomes DamagedAssetError."""
    kind = getattr(errors, str(raw.get("class")), DamagedAssetError)
    if not (isinstance(kind, type) and issubclass(kind, ForgepackError)):
        kind = DamagedAssetError
    fields = {name: raw.get(name) for name in ("where", "expected", "found", "hint")}
    return kind(str(raw.get("what")), code=str(raw.get("code", "")), **fields)
