"""What a describer writes down of one file or folder: identity, facts, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from forgepack.artifacts.files import hash_file
from forgepack.errors import CorruptError, ForgepackError, IdentityError, MissingError, NumericsError
from forgepack.profile import Profile

# Files up to this size are hashed without being asked: a second or two of reading.
HASH_LIMIT = 1 << 30
T = TypeVar("T")
# Content that is wrong; what can't be read at all, or is over a limit, ends the command instead.
_CONTENT = (CorruptError, MissingError, IdentityError, NumericsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with what is inspected."""

    code: str
    where: str
    what: str


@dataclass(slots=True, kw_only=True)
class Notes:
    """What a describer writes down; ``deep`` asks for all bytes and for the programs of assets."""

    path: Path
    deep: bool
    profiles: tuple[Profile, ...]
    title: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns; content that is wrong becomes a fault, and None is returned."""
        try:
            return read()
        except _CONTENT as err:
            self.fault(err)
            return None

    def fault(self, err: ForgepackError) -> None:
        """Write an error down as a fault, its place below what is inspected."""
        where = (err.where or "").removeprefix(str(self.path)).lstrip("/:").strip()
        parts = [
            err.what,
            *(f"{name} {text}" for name, text in (("expected", err.expected), ("found", err.found)) if text),
        ]
        self.faults.append(Fault(code=err.code or type(err).__name__, where=where, what="; ".join(parts)))

    def hash(self, path: Path, name: str = "sha256") -> str | None:
        """Write a file's digest down unless it is large and not all bytes are asked for; name a known one."""
        if path.stat().st_size > HASH_LIMIT and not self.deep:
            self.facts["not hashed"] = f"{path.name} is over {HASH_LIMIT >> 30} GiB: give --deep"
            return None
        digest = hash_file(path)[1]
        self.identity[name] = digest
        self.know(digest)
        return digest

    def know(self, digest: str) -> None:
        """Say so when a profile knows a digest to be wrong or withdrawn, or pins it."""
        for profile in self.profiles:
            for word, known in (("wrong", profile.known_bad), ("withdrawn", profile.withdrawn)):
                if digest in known:
                    what = f"profile {profile.name} knows it as {word}: {known[digest]}"
                    self.faults.append(Fault(code="known-bad", where=digest, what=what))
            if digest == profile.target.tokenizer_sha256:
                self.facts["pinned"] = f"the tokenizer of profile {profile.name}"

    def fitting(self, names: Iterable[str]) -> None:
        """Write down the profiles that what is inspected fits."""
        found = sorted(set(names))
        self.facts["profile"] = ", ".join(found) if found else "none of the known ones"
