"""A sparse copy of a published release: small files whole, big ones as holes of their true size with their heads.

The hub records size and digest of every file at a commit, so a release can be checked without its weights: the
readers of headers find them in place, the digests are the hub's own, and what no rule at that depth looks at is a
hole in a sparse file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forgepack.artifacts.release_json import RELEASE_FILE
from forgepack.artifacts.release_record import SUMS_FILE
from forgepack.artifacts.safetensors_file import MAX_HEADER
from forgepack.artifacts.target import read_embedding
from forgepack.artifacts.tree import unsafe_reason
from forgepack.disk.files import make_folder, new_file, opened
from forgepack.errors import CorruptError, ForgepackError, HubError
from forgepack.hub.client import HubFile
from forgepack.hub.fetch import PinnedSource
from forgepack.hub.report import Effects, Progress, RetryPolicy
from forgepack.hub.retry import ask_again
from forgepack.hub.transfer import Transfer
from forgepack.profile import Profile
from forgepack.verify.inputs.hashing import FileDigest

LARGEST = 64 << 20
HEAD = 4096
_WHOLE = (".json", ".jinja", ".md", ".txt", "main.hash", "LICENSE", "NOTICE", SUMS_FILE)


@dataclass(slots=True, kw_only=True)
class SparseCopy:
    """A folder being filled from one commit; ``known`` is the hub's size and digest of each file, by local path.

    What is not in LFS comes whole and is hashed, so do texts of up to 64 MB; of weights only the heads come.
    """

    source: PinnedSource
    folder: Path
    profile: Profile
    effects: Effects
    policy: RetryPolicy
    known: dict[Path, FileDigest] = field(default_factory=dict)
    received: int = 0
    _heads: dict[str, HubFile] = field(default_factory=dict)

    def fetch(self, file: HubFile) -> Path:
        """Bring a file whole, proven to be the hub's record."""
        path = self._place(file)
        transfer = Transfer(self.source, self.profile, effects=self.effects, policy=self.policy)
        landed = transfer.land(file, path)
        self.received += landed.received
        self.known[path] = FileDigest(bytes=file.size, sha256=landed.sha256)
        return path

    def fill(self, listed: Mapping[str, HubFile], wanted: Iterable[str]) -> None:
        """Bring what is wanted, and make a hole for every other file of the commit."""
        chosen = set(wanted)
        for name in sorted(set(listed) - {RELEASE_FILE}):
            file = listed[name]
            text = name.endswith(_WHOLE) and file.size <= LARGEST
            if name in chosen and (file.sha256 is None or text):
                self.fetch(file)
            else:
                self._sparse(file, head=name in chosen)

    def fill_row(self, path: Path, token: int) -> None:
        """Bring one row of an embedding, where it has one: the pair is bound to the mask token's."""
        try:
            table = read_embedding(path)
        except ForgepackError:
            return  # reported by the rule that owns the fault
        name = path.relative_to(self.folder).as_posix()
        if token < table.shape[0] and name in self._heads:
            size = 2 * table.shape[1]
            self._patch(self._heads[name], table.offset + token * size, size)

    def _sparse(self, file: HubFile, *, head: bool) -> None:
        path = self._place(file)
        with new_file(path) as handle:
            handle.truncate(file.size)
        if file.sha256 is not None:
            self.known[path] = FileDigest(bytes=file.size, sha256=file.sha256)
        if not head:
            return
        self._heads[file.path] = file
        first = self._patch(file, 0, min(HEAD, file.size))
        if file.path.endswith(".safetensors"):
            length = 8 + int.from_bytes(first[:8], "little")
            if len(first) < length <= min(file.size, MAX_HEADER):
                self._patch(file, 0, length)

    def _patch(self, file: HubFile, offset: int, size: int) -> bytes:
        """Bring ``size`` bytes from ``offset`` on into the hole, and return them."""
        self.effects.report(Progress(phase="download", path=file.path, total=size))
        data = ask_again(lambda: self._range(file, offset, size), effects=self.effects, policy=self.policy)
        self.received += len(data)
        path = self._place(file)
        with opened(path) as handle:
            handle.seek(offset)
            handle.write(data)
        return data

    def _range(self, file: HubFile, offset: int, size: int) -> bytes:
        data = bytearray()
        with self.source.open(file, offset) as answer:
            if answer.start != offset:
                raise _short(file, offset, "the whole file")
            for chunk in answer.chunks:
                data += chunk[: size - len(data)]
                if len(data) == size:
                    return bytes(data)
        raise _short(file, offset, f"{len(data)} bytes")

    def _place(self, file: HubFile) -> Path:
        reason = unsafe_reason(file.path)
        if reason is not None:
            raise CorruptError(
                "the commit holds a file whose name leads elsewhere",
                where=f"{self.source.repo} @ {self.source.commit}",
                found=f"{file.path[:80]!r} {reason}",
                code="path-escape",
            )
        path = self.folder / file.path
        make_folder(path.parent, parents=True)
        return path


def _short(file: HubFile, offset: int, found: str) -> HubError:
    return HubError(
        "the hub does not send the part of a file that was asked for",
        where=file.path,
        expected=f"bytes from {offset} on",
        found=found,
        hint="run the same command later, or the hub itself instead of a mirror",
        code="hub-range",
    )
