"""release.json, schema 1: which files a release consists of, and which target and drafter it pairs.

The format is Forge's (its release check and download read it); the release contract, section 7, lists its demands.
``export_path`` is not in that list: Forge's own reader takes the export component's folder from it. Keys beyond the
known ones are left alone, as Forge leaves them. Reading collects every fault: what can be used of a damaged file is
used, so that a verification can tell everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.lock import is_sha256
from forgepack.artifacts.tree import unsafe_reason
from forgepack.canonical import parse_object, sha256_hex
from forgepack.errors import CorruptError, ForgepackError
from forgepack.limits import RELEASE_BYTES

RELEASE_FILE = "release.json"
SCHEMA_VERSION = 1
MAX_BYTES = RELEASE_BYTES
RUNTIMES = ("coreai", "coreml")
DOCUMENTATION = "documentation"
DOCUMENTS = ("LICENSE", "MODIFICATIONS.md", "NOTICE", "QWEN_SOURCE.json", "README.md")
COMPONENTS = ("model", *RUNTIMES, "export", "drafter", DOCUMENTATION)
MODEL_REQUIRED = ("config.json", "embed_tokens_fp16.npy", "tokenizer.json", "tokenizer_config.json")
MODEL_FILES = (
    *MODEL_REQUIRED,
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
)
_CONVERTED = ("coreai", "coreml", "export", "drafter")
_PLAIN_SUFFIXES = frozenset({".json", ".md", ".txt", ".yaml", ".yml", ".toml", ".xml", ".plist"})
_DRAFTER_NAMES = ("model", "metadata", "config", "codebooks", "target_export", "head_export")
_HINT = "write it again with forgepack bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFile:
    """One file of the inventory; ``notice`` says how it was changed from its upstream, None where nothing is said."""

    path: str
    component: str
    bytes: int
    sha256: str
    notice: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it stands in release.json."""
        entry = {"path": self.path, "component": self.component, "bytes": self.bytes, "sha256": self.sha256}
        return entry if self.notice is None else {**entry, "modification_notice": self.notice}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRuntime:
    """One runtime's folder and its contexts in tokens."""

    path: str
    contexts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDrafter:
    """The drafter of the pair: its folder, file names in it, and the names and taps by which Forge pairs."""

    path: str
    model: str
    metadata: str
    config: str
    codebooks: str
    target_export: str
    head_export: str
    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """release.json as read. ``has_drafter`` is true where a drafter is stated, even one that can't be used."""

    path: Path
    raw: Mapping[str, Any]
    sha256: str
    upstream_id: str
    upstream_revision: str
    model_path: str
    export_path: str | None
    runtimes: Mapping[str, ReleaseRuntime]
    drafter: ReleaseDrafter | None
    has_drafter: bool
    files: tuple[ReleaseFile, ...]

    @property
    def roots(self) -> dict[str, str]:
        """The folder of each component that has one."""
        found = {"model": self.model_path, **{name: runtime.path for name, runtime in self.runtimes.items()}}
        if self.export_path is not None:
            found["export"] = self.export_path
        if self.drafter is not None:
            found["drafter"] = self.drafter.path
        return found

    def of(self, component: str) -> tuple[ReleaseFile, ...]:
        """Return the files of one component."""
        return tuple(file for file in self.files if file.component == component)


def needs_notice(path: str, component: str, model_path: str = "model") -> bool:
    """Say whether a file is derived from an upstream's in a form that must carry a modification notice."""
    name = path.rpartition("/")[2]
    if path == f"{model_path}/embed_tokens_fp16.npy":
        return True
    suffix = Path(name).suffix.lower()
    return component in _CONVERTED and suffix not in _PLAIN_SUFFIXES and name not in ("LICENSE", "NOTICE")


def read_release(path: Path) -> tuple[Release | None, tuple[ForgepackError, ...]]:
    """Return the release, None when it is of another schema, and every fault of its form.

    Codes: ``release`` for the form, ``path-escape`` for paths. Raises the errors of reading strict JSON.
    """
    data = read_bounded(path, MAX_BYTES)
    return parse_release(parse_object(data, where=str(path)), path=path, sha256=sha256_hex(data))


def parse_release(
    raw: Mapping[str, Any], *, path: Path, sha256: str
) -> tuple[Release | None, tuple[ForgepackError, ...]]:
    """Build a Release from its JSON object and say all that is wrong with it."""
    reader = _Reader(str(path))
    version = raw.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        reader.fault("schema_version", str(SCHEMA_VERSION), version, what="the release is of another schema")
        return None, tuple(reader.faults)
    upstream = reader.object(raw, "upstream_model")
    release = Release(
        path=path,
        raw=raw,
        sha256=sha256,
        upstream_id=reader.text(upstream, "upstream_model.id"),
        upstream_revision=reader.text(upstream, "upstream_model.revision"),
        model_path=reader.path(raw, "model_path") or "model",
        export_path=reader.path(raw, "export_path") if raw.get("export_path") is not None else None,
        runtimes=dict(_runtimes(reader, raw)),
        drafter=_drafter(reader, raw),
        has_drafter=raw.get("drafter") is not None,
        files=tuple(_files(reader, raw)),
    )
    return release, tuple(reader.faults)


def _runtimes(reader: _Reader, raw: Mapping[str, Any]) -> Iterator[tuple[str, ReleaseRuntime]]:
    stated = reader.object(raw, "runtimes")
    if not stated:
        reader.fault("runtimes", "coreai, coreml or both", raw.get("runtimes"))
    for name in stated:
        where = f"runtimes.{name}"
        if name not in RUNTIMES:
            reader.fault(where, " or ".join(RUNTIMES), name)
            continue
        entry = reader.object(stated, where)
        path, contexts = reader.path(entry, f"{where}.path"), reader.naturals(entry, f"{where}.contexts", least=1)
        if len(set(contexts)) != len(contexts):
            reader.fault(f"{where}.contexts", "distinct contexts", list(contexts))
        elif path is not None and contexts:
            yield name, ReleaseRuntime(path=path, contexts=contexts)


def _drafter(reader: _Reader, raw: Mapping[str, Any]) -> ReleaseDrafter | None:
    if raw.get("drafter") is None:
        return None
    stated, before = reader.object(raw, "drafter"), len(reader.faults)
    names = {key: reader.path(stated, f"drafter.{key}") or "" for key in _DRAFTER_NAMES}
    path = reader.path(stated, "drafter.path") or ""
    if stated.get("runtime") != "coreai":
        reader.fault("drafter.runtime", "coreai", stated.get("runtime"))
    for key in ("target_export", "head_export"):
        if "/" in names[key]:
            reader.fault(f"drafter.{key}", "a single name", names[key])
    taps = reader.naturals(stated, "drafter.taps", least=0)
    if len(reader.faults) > before:
        return None
    return ReleaseDrafter(path=path, **names, taps=taps)


def _files(reader: _Reader, raw: Mapping[str, Any]) -> Iterator[ReleaseFile]:
    items = raw.get("files")
    if not isinstance(items, list) or not items:
        reader.fault("files", "a list of files", items)
        return
    for number, item in enumerate(items):
        entry = item if isinstance(item, dict) else {}
        file = _file(reader, entry, f"files[{number}]")
        if file is not None:
            yield file


def _file(reader: _Reader, entry: Mapping[str, Any], where: str) -> ReleaseFile | None:
    before = len(reader.faults)
    path, component = reader.path(entry, f"{where}.path"), entry.get("component")
    size, sha256, notice = entry.get("bytes"), entry.get("sha256"), entry.get("modification_notice")
    if component not in COMPONENTS:
        reader.fault(f"{where}.component", f"one of {', '.join(COMPONENTS)}", component)
    if type(size) is not int or not 0 <= size < 1 << 62:
        reader.fault(f"{where}.bytes", "a natural number", size)
    if not isinstance(sha256, str) or not is_sha256(sha256):
        reader.fault(f"{where}.sha256", "64 lower-case hex digits", sha256)
    if not isinstance(notice, str | None):
        reader.fault(f"{where}.modification_notice", "a text", notice)
    if path is None or len(reader.faults) > before:
        return None
    return ReleaseFile(path=path, component=str(component), bytes=entry["bytes"], sha256=str(sha256), notice=notice)


class _Reader:
    """Takes fields of the expected types and remembers every one that is not."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.faults: list[ForgepackError] = []

    def fault(self, field: str, expected: str, found: Any, what: str = "release.json has another form") -> None:
        where, shown = f"{self.where}: {field}", repr(found)[:80]
        self.faults.append(
            CorruptError(what, where=where, expected=expected, found=shown, hint=_HINT, code="release")
        )

    def object(self, raw: Mapping[str, Any], field: str) -> Mapping[str, Any]:
        value = raw.get(_key(field))
        if isinstance(value, dict):
            return value
        self.fault(field, "an object", value)
        return {}

    def text(self, raw: Mapping[str, Any], field: str) -> str:
        value = raw.get(_key(field))
        if isinstance(value, str) and value.strip():
            return value
        self.fault(field, "a text that is not blank", value)
        return ""

    def naturals(self, raw: Mapping[str, Any], field: str, *, least: int) -> tuple[int, ...]:
        """Return a list of at least one integer that is not below ``least``, nothing where it is none."""
        value = raw.get(_key(field))
        if isinstance(value, list) and value and all(type(n) is int and n >= least for n in value):
            return tuple(value)
        self.fault(field, f"a list of integers of at least {least}", value)
        return ()

    def path(self, raw: Mapping[str, Any], field: str) -> str | None:
        """Return a canonical relative path, or None; an unsafe one is a fault of its own code."""
        value = raw.get(_key(field))
        if not isinstance(value, str):
            self.fault(field, "a path", value)
            return None
        reason = unsafe_reason(value)
        if reason is None:
            return value
        what, where = "a path of the release is not canonical and relative", f"{self.where}: {field}"
        found = f"{value[:80]!r} {reason}"
        self.faults.append(CorruptError(what, where=where, found=found, hint=_HINT, code="path-escape"))
        return None


def _key(field: str) -> str:
    return field.rpartition(".")[2]
