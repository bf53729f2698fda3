"""forgepack.lock: what a build was made of and what it made, by digest; no path of the machine, no clock.

Written beside forgepack.toml after a build. With it the next build skips what is up to date, and ``--locked``
refuses whatever is not what it records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgepack import __version__
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.tree import walk
from forgepack.canonical import digest_json, dump_canonical, parse_object
from forgepack.coreai_backend.availability import DISTRIBUTION, PINNED_VERSION
from forgepack.disk.files import write_file
from forgepack.document import DocumentKind
from forgepack.errors import IdentityError, MissingError, UsageError
from forgepack.facts.fact import differences
from forgepack.facts.files import file_record
from forgepack.limits import BUILD_LOCK_BYTES

LOCK_FILE = "forgepack.lock"


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a lock of version 1 in today's form: its build could name neither waivers nor attestations."""
    return {**raw, "inputs": {**raw["inputs"], "given": None}}


KIND = DocumentKind(
    name="forgepack.build_lock",
    title="lock of a build",
    remake="remove the file and build again",
    code="build-lock",
    version=2,
    upgrade=_from_version_1,
    form="build_lock",
)
MAX_BYTES = BUILD_LOCK_BYTES
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: ``key`` is the digest of all that it depends on, ``files`` what lay in its output afterwards."""

    key: str
    files: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLock:
    """The content of forgepack.lock."""

    inputs: Mapping[str, Any]
    steps: Mapping[str, StepRecord] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the lock as schemas/build_lock.schema.json describes it."""
        steps = {name: {"key": step.key, "files": dict(step.files)} for name, step in self.steps.items()}
        return {"schema": KIND.schema, "tool": tool(), "inputs": dict(self.inputs), "steps": steps}


def tool() -> dict[str, str]:
    """Return what makes the outputs besides the inputs: versions of this tool and of Core AI's package."""
    return {"name": "forgepack", "version": __version__, DISTRIBUTION: PINNED_VERSION}


def step_key(*parts: Any) -> str:
    """Return the key of a step that depends on ``parts`` (JSON values) and on the tool's version."""
    return digest_json([tool(), *parts])


def read_build_lock(path: Path) -> BuildLock | None:
    """Read a lock, None where there is none; CorruptError for one that is not valid, tool version aside."""
    try:
        data = read_bounded(path, MAX_BYTES)
    except MissingError:
        return None
    raw = KIND.judged(parse_object(data, where=str(path)), where=str(path))
    steps = {name: StepRecord(key=step["key"], files=step["files"]) for name, step in raw["steps"].items()}
    # A lock of another version keeps nothing up to date: the tool is part of every key.
    return BuildLock(inputs={**raw["inputs"], "tool": raw["tool"]}, steps=steps)


def write_build_lock(path: Path, lock: BuildLock) -> None:
    """Write a lock whole or not at all."""
    write_file(path, dump_canonical(lock.as_json()))


def require_lock(lock: BuildLock | None, path: Path) -> BuildLock:
    """Return the lock that ``--locked`` holds a build to; UsageError where there is none."""
    if lock is None:
        hint = "run forgepack build once without --locked, and keep the file it writes"
        raise UsageError("--locked needs a lock file", where=str(path), hint=hint)
    return lock


def refuse_drift(locked: Mapping[str, Any], found: Mapping[str, Any], *, what: str, where: Path) -> None:
    """Raise IdentityError (``locked``) that lists what is not as locked, if anything is not."""
    drift = list(_drift(locked, found))
    if drift:
        more = f"; and {len(drift) - _SHOWN} more" if len(drift) > _SHOWN else ""
        raise IdentityError(
            f"{what} not what the lock records",
            where=str(where),
            found="; ".join(drift[:_SHOWN]) + more,
            hint="restore what was locked, or build without --locked to lock the new state",
            code="locked",
        )


def _drift(locked: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for path, old, new in differences(dict(locked), dict(found)):
        yield f"{path}: {_short(old)} was locked, {_short(new)} found"


def _short(value: Any) -> str:
    return str(value)[:80]


def describe_output(root: Path) -> dict[str, Any]:
    """Return every file of an output folder by its path; nothing where there is no folder."""
    if not root.is_dir():
        return {}
    return {entry.path: file_record(root / entry.path) for entry in walk(root) if entry.kind == "file"}
