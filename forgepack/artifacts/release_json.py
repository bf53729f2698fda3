"""release.json, schema 1: which files a release consists of, and which target and drafter it pairs.

The format is Forge's (its release check and download read it); the release contract, section 7, lists its demands.
``export_path`` is not in that list: Forge's own reader takes the export component's folder from it. Keys beyond the
known ones are left alone, as Forge leaves them. Reading collects every fault: what can be used of a damaged file is
used, so that a verification can report everything at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.tree import unsafe_path
from forgepack.canonical import parse_object, sha256_hex
from forgepack.errors import CorruptError, ForgepackError
from forgepack.limits import RELEASE_BYTES
from forgepack.schema_check import Keys, SchemaFault, field_of, schema_faults

RELEASE_FILE = "release.json"
SCHEMA_VERSION = 1
SCHEMA_NAME = "release"
MAX_BYTES = RELEASE_BYTES
MAX_FAULTS = 1000
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
_UNSAFE = "a path of the release is not canonical and relative"
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
    """Build a Release of all that has the schema's form in a JSON object, and say what has not."""
    stated = schema_faults(dict(raw), SCHEMA_NAME, most=MAX_FAULTS)
    version = next((fault for fault in stated if fault.keys == ("schema_version",)), None)
    if version is not None:
        return None, (_error(version, path, what="the release is of another schema"),)
    faults = {fault.keys: _error(fault, path) for fault in stated}
    # A path that must not be used has a code of its own, also where the schema's pattern refuses it.
    for keys, value in _paths(raw):
        unsafe = unsafe_path(value, _UNSAFE, where=f"{path}: {field_of(keys)}", hint=_HINT)
        if unsafe is not None:
            faults[keys] = unsafe
    good = _Good(raw, faults)
    drafter = good.value("drafter")
    release = Release(
        path=path,
        raw=raw,
        sha256=sha256,
        upstream_id=good.value("upstream_model", "id") or "",
        upstream_revision=good.value("upstream_model", "revision") or "",
        model_path=good.value("model_path") or "model",
        export_path=good.value("export_path"),
        runtimes={
            str(name): ReleaseRuntime(path=one["path"], contexts=tuple(one["contexts"]))
            for name, one in good.items("runtimes")
        },
        drafter=None if drafter is None else _drafter(drafter),
        has_drafter=raw.get("drafter") is not None,
        # Past the greatest number of faults it is not known which files are right.
        files=() if len(stated) == MAX_FAULTS else tuple(_file(one) for _, one in good.items("files")),
    )
    return release, tuple(faults.values())


def _drafter(raw: Mapping[str, Any]) -> ReleaseDrafter:
    names = {key: raw[key] for key in _DRAFTER_NAMES}
    return ReleaseDrafter(path=raw["path"], **names, taps=tuple(raw["taps"]))


def _file(raw: Mapping[str, Any]) -> ReleaseFile:
    fields = {key: raw[key] for key in ("path", "component", "bytes", "sha256")}
    return ReleaseFile(**fields, notice=raw.get("modification_notice"))


def _error(fault: SchemaFault, path: Path, what: str = "release.json has another form") -> CorruptError:
    where = f"{path}: {fault.field}"
    return CorruptError(
        what, where=where, expected=fault.expected, found=fault.found, hint=fault.hint or _HINT, code="release"
    )


def _paths(raw: Mapping[str, Any]) -> Iterator[tuple[Keys, Any]]:
    """Yield each value that stands where a path must, whatever it is."""
    places: list[Keys] = [("model_path",), ("export_path",)]
    places += [("drafter", name) for name in ("path", *_DRAFTER_NAMES)]
    places += [("runtimes", name, "path") for name in RUNTIMES]
    for keys in places:
        node: Any = raw
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        yield keys, node
    files = raw.get("files")
    for number, file in enumerate(files if isinstance(files, list) else ()):
        yield ("files", number, "path"), file.get("path") if isinstance(file, dict) else None


class _Good:
    """What of a damaged object is right: a value counts where no fault is at its place or inside of it."""

    def __init__(self, raw: Mapping[str, Any], faults: Collection[Keys]) -> None:
        self._raw = raw
        self._faults = faults
        self._spoilt = {keys[:depth] for keys in faults for depth in range(1, len(keys) + 1)}

    def value(self, *keys: str) -> Any:
        """Return the value at a place, None where there is none or it is not right."""
        node: Any = None if keys in self._spoilt else self._raw
        for key in keys:
            node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def items(self, name: str) -> Iterator[tuple[str | int, Any]]:
        """Yield the right ones of what an object or a list holds, by key or number."""
        held = self._raw.get(name) if (name,) not in self._faults else ()
        pairs = held.items() if isinstance(held, dict) else enumerate(held or ())
        return ((key, value) for key, value in pairs if (name, key) not in self._spoilt)
