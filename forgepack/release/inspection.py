"""Tell what a file or folder is: kind, identity, facts, faults; nothing is written or downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from forgepack import __version__
from forgepack.artifacts.files import hash_file
from forgepack.errors import (
    EXIT_OK,
    EXIT_REFUSED,
    CorruptError,
    ForgepackError,
    IdentityError,
    MissingError,
    NumericsError,
)
from forgepack.profile import Profile, load_profile, profile_names

SCHEMA = "forgepack.inspect/1"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found. ``identity`` holds digests and pins, ``facts`` JSON values by name, in the order to be told."""

    path: Path
    kind: str
    title: str
    identity: Mapping[str, str]
    facts: Mapping[str, Any]
    faults: tuple[Fault, ...]

    @property
    def exit_code(self) -> int:
        """1 when something is wrong with the content, else 0."""
        return EXIT_REFUSED if self.faults else EXIT_OK


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
        """Write a file's digest down unless it is large and not all bytes are asked for; tell a known one."""
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


def inspect_path(path: Path, *, deep: bool = False, more: Profile | None = None) -> Inspection:
    """Inspect a file or folder; ``more`` is a profile to be known beside the shipped ones.

    UsageError when there is nothing of that name, UnreadableError and LimitError when it can't be looked at.
    """
    from forgepack.release.describe import describe
    from forgepack.release.recognition import recognise

    kind = recognise(path)
    shipped = [load_profile(name) for name in profile_names()]
    extra = [] if more is None or more.digest in {p.digest for p in shipped} else [more]
    notes = Notes(path=path, deep=deep, profiles=(*shipped, *extra))
    describe(kind, notes)
    return Inspection(
        path=path,
        kind=kind,
        title=notes.title,
        identity=notes.identity,
        facts=notes.facts,
        faults=tuple(notes.faults),
    )


def inspection_json(found: Inspection) -> dict[str, Any]:
    """Return the result as the JSON object that schemas/inspect.schema.json describes."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "forgepack", "version": __version__},
        "path": found.path.as_posix(),
        "kind": found.kind,
        "title": found.title,
        "identity": dict(found.identity),
        "facts": dict(found.facts),
        "faults": [{"code": f.code, "where": f.where, "what": f.what} for f in found.faults],
    }
