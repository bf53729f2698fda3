"""Say what a file or folder is: kind, identity, facts, faults; nothing is written or downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack import __version__
from forgepack.errors import EXIT_OK, EXIT_REFUSED
from forgepack.profile import Profile, load_profile, profile_names
from forgepack.release.inspect.kinds import describe
from forgepack.release.inspect.notes import Fault, Notes
from forgepack.release.inspect.recognition import recognise

SCHEMA = "forgepack.inspect/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found. ``identity`` holds digests and pins, ``facts`` JSON values by name, in order."""

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


def inspect_path(path: Path, *, deep: bool = False, more: Profile | None = None) -> Inspection:
    """Inspect a file or folder; ``more`` is a profile to be known beside the shipped ones.

    UsageError when there is nothing of that name, UnreadableError and LimitError when it can't be looked at.
    """
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
