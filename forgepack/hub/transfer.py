"""One file from the hub into its part: ranged, resumed, retried, hashed, and checked."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forgepack.artifacts.lock import LockedFile
from forgepack.artifacts.locked import refuse_wrong_files
from forgepack.disk.files import remove_file
from forgepack.errors import HubError, IdentityError
from forgepack.hub.client import Answer, HubFile
from forgepack.hub.faults import RangeRefusedError, TransientHubError
from forgepack.hub.partial_file import HEAD_BYTES, PartialFile
from forgepack.hub.report import Effects, Phase, Progress, RetryPolicy
from forgepack.hub.retry import Patience
from forgepack.profile import Profile


class Source(Protocol):
    """Where the bytes come from, bound to one repository and commit."""

    def open(self, file: HubFile, offset: int) -> AbstractContextManager[Answer]:
        """Yield the file's bytes from ``offset`` on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A file that is complete and right in its part; ``received`` bytes came in this run, ``kept`` were there."""

    sha256: str
    received: int
    kept: int


class Transfer:
    """Brings files from one source into parts; ``phase`` names the work in its progress."""

    def __init__(
        self, source: Source, profile: Profile, *, effects: Effects, policy: RetryPolicy, phase: Phase = "download"
    ) -> None:
        self._source = source
        self._profile = profile
        self._effects = effects
        self._policy = policy
        self._phase = phase
        self._received = 0

    def land(self, file: HubFile, path: Path) -> Landed:
        """Bring ``file`` to ``path``, going on from the bytes that are there, and prove it the hub's record.

        Wrong bytes of the right length raise IdentityError and the part is removed. A part put together from more
        than one answer is taken once more in one piece before that: the splice may be at fault, not the hub.
        """
        self._received = 0
        with PartialFile(path, file) as part:
            part.rehash(lambda _: self._tell("check", part))
            kept = part.size
            answers = self._fill(part)
            if not part.content.matches() and (kept > 0 or answers > 1):
                note = "the resumed bytes are not the hub's: taking the file again from its start"
                self._effects.report(Progress(phase="retry", path=file.path, total=file.size, note=note))
                part.restart()
                kept = 0
                self._fill(part)
            try:
                self._judge(part)
            except (HubError, IdentityError):
                remove_file(path)
                raise
            part.flush()
            return Landed(sha256=part.content.sha256, received=self._received, kept=kept)

    def _fill(self, part: PartialFile) -> int:
        """Append until the part has the file's size; return the number of answers that brought bytes."""
        answers = 0
        patience = Patience(part.file.path, part.file.size, effects=self._effects, policy=self._policy)
        while part.size < part.file.size:
            before = self._received
            try:
                self._take(part)
            except TransientHubError as err:
                if isinstance(err, RangeRefusedError):
                    part.restart()
                patience.fail(err, brought=self._received - before, done=part.size)
            answers += self._received > before
        return answers

    def _take(self, part: PartialFile) -> None:
        """Append the bytes of one answer; TransientHubError if it ends early."""
        with self._source.open(part.file, part.size) as answer:
            if answer.start != part.size:
                part.restart()
            promised = answer.length
            end = None if promised is None else answer.start + promised
            if end is not None and (end > part.file.size or (answer.start == 0 and end < part.file.size)):
                self._refuse_length(part, next(answer.chunks, b""), end)
            self._pour(part, answer)
        if part.size < part.file.size:
            self._refuse_wrong_kind(part)
            raise TransientHubError(
                "the transfer was cut",
                where=part.file.path,
                expected=f"{part.file.size} bytes",
                found=f"{part.size} bytes",
                hint="run the same command: it resumes",
                code="hub-cut",
            )

    def _pour(self, part: PartialFile, answer: Answer) -> None:
        started = window = self._effects.clock()
        window_bytes = taken = 0
        for chunk in answer.chunks:
            if part.size + len(chunk) > part.file.size:
                self._refuse_length(part, chunk, part.size + len(chunk))
            part.append(chunk)
            self._received += len(chunk)
            taken += len(chunk)
            now = self._effects.clock()
            self._tell(self._phase, part, taken / (now - started) if now > started else 0.0)
            if now - window >= self._policy.stall_window:
                if taken - window_bytes < self._policy.stall_bytes:
                    raise TransientHubError(
                        "the transfer stalls",
                        where=part.file.path,
                        hint="try again later",
                        code="hub-timeout",
                    )
                window, window_bytes = now, taken

    def _refuse_length(self, part: PartialFile, first: bytes, length: int) -> None:
        """Raise for an answer whose length is not the file's, after a look at its ``first`` bytes."""
        part.head = part.head or first[:HEAD_BYTES]
        self._refuse_wrong_kind(part)
        short = length < part.file.size
        remove_file(part.path)
        raise HubError(
            f"the hub sends a file that is {'shorter' if short else 'longer'} than its record",
            where=part.file.path,
            expected=f"{part.file.size} bytes",
            found=f"{length} bytes" if short else f"at least {length} bytes",
            hint="try again later, or the hub itself instead of a mirror",
            code="hub-short" if short else "hub-long",
        )

    def _refuse_wrong_kind(self, part: PartialFile) -> None:
        """Raise, and drop the part, if a page or a pointer came in the file's place."""
        kind = part.looks_like()
        code = {"an HTML page": "hub-html", "a Git LFS pointer": "hub-lfs-pointer"}.get(kind or "")
        if kind is None or code is None:
            return
        remove_file(part.path)
        pointer = part.head.decode("utf-8", "replace").split() if code == "hub-lfs-pointer" else []
        oid = next((w for w in pointer if w.startswith("sha256:")), "")
        raise HubError(
            f"the hub sends {kind} in the file's place",
            where=part.file.path,
            expected=f"{part.file.size} bytes, {part.content.expected}",
            found=f"{kind} {oid[:71]}".rstrip(),
            hint="a captive portal, a proxy or a mirror without LFS may answer in the hub's place: check HF_ENDPOINT",
            code=code,
        )

    def _judge(self, part: PartialFile) -> None:
        found = LockedFile(path=part.file.path, bytes=part.size, sha256=part.content.sha256)
        refuse_wrong_files([found], self._profile, where=part.file.path)
        if part.content.matches():
            return
        self._refuse_wrong_kind(part)
        raise IdentityError(
            "the bytes have the right length and the wrong content; they are discarded",
            where=part.file.path,
            expected=part.content.expected,
            found=part.content.found,
            hint="run the same command again; if it stays, the mirror serves other bytes than the hub records",
            code="wrong-bytes",
        )

    def _tell(self, phase: Phase, part: PartialFile, rate: float = 0.0) -> None:
        file = part.file
        self._effects.report(Progress(phase=phase, path=file.path, done=part.size, total=file.size, rate=rate))
