"""What a client of the hub recorded of files that it brought: evidence, when a folder is adopted.

huggingface_hub notes beside a local folder, per file, the commit and the digest that the hub stated; it calls the
folder of a cached snapshot by its commit, and each blob that a snapshot links to by its digest. The client itself
compares none of this with the bytes (it looks at sizes alone), so whatever it states is compared here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.lock import Evidence, is_commit
from forgepack.canonical import parse_json
from forgepack.errors import CorruptError, IdentityError, MissingError
from forgepack.hub.client import HubFile
from forgepack.hub.partial_file import hash_content

# Where huggingface_hub keeps its notes below a local folder, today and in its release 0.23.
NOTES = (".cache/huggingface", ".huggingface")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPO = re.compile(r"models--([^/]+?)--([^/]+)")
_MAX_NOTE = 1 << 12
_MAX_TREE = 16 << 20
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a client recorded of a file: ``place`` says where, ``kind`` of what, ``value`` what.

    A ``digest`` is a SHA-256 (64 hex digits) or the id of a git blob (40).
    """

    place: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """All statements of one file."""

    name: str
    path: Path
    statements: tuple[Statement, ...]

    @property
    def evidence(self) -> Evidence:
        """What the record says of the file, once all of it has been compared."""
        kinds = {one.kind for one in self.statements}
        if "digest" in kinds:
            return "client" if "commit" in kinds else "digest"
        return "commit" if "commit" in kinds else "none"


def read_client_record(source: Path, name: str, commit: str) -> ClientRecord:
    """Return what a client recorded of a file in ``source``; CorruptError for a link that leaves folder and cache."""
    hops = list(_hops(source / name))
    cache = next((root for hop in hops if (root := _cache_of(hop)) is not None), None)
    _refuse_escape(source, hops, cache)
    statements = [*_noted(source, name, commit), *_named(hops)]
    if cache is not None:
        statements += _cached(cache, name, commit)
    return ClientRecord(name=name, path=source / name, statements=tuple(dict.fromkeys(statements)))


def refuse_other_source(record: ClientRecord, *, repo: str, commit: str) -> None:
    """Raise IdentityError (``wrong-repo``, ``wrong-commit``) where the client recorded another of both."""
    for kind, expected in (("repo", repo), ("commit", commit)):
        for one in record.statements:
            if one.kind == kind and one.value != expected:
                what = {"repo": "of another repository", "commit": "downloaded at another commit"}[kind]
                raise _refusal(record.name, f"was {what}", one, expected=expected, code=f"wrong-{kind}")


def refuse_other_bytes(record: ClientRecord, sha256: str, progress: Callable[[int], None]) -> None:
    """Raise IdentityError (``wrong-bytes``) where the client recorded another digest than that of the bytes."""
    blobs = [one for one in record.statements if one.kind == "digest" and len(one.value) == 40]
    for one in record.statements:
        if one.kind == "digest" and len(one.value) == 64 and one.value != sha256:
            raise _refusal(record.name, "is not what the client recorded", one, expected=sha256, code="wrong-bytes")
    for one in blobs:
        file = HubFile(path=record.name, size=record.path.stat().st_size, sha256=None, blob_id=one.value)
        content = hash_content(record.path, file, progress)
        if not content.matches():
            found = content.found.removeprefix("git blob ")
            raise _refusal(record.name, "is not what the client recorded", one, expected=found, code="wrong-bytes")


def _refusal(name: str, what: str, one: Statement, *, expected: str, code: str) -> IdentityError:
    bytes_differ = code == "wrong-bytes"
    return IdentityError(
        f"{name} {what}",
        where=one.place,
        expected=one.value if bytes_differ else expected,
        found=expected if bytes_differ else one.value,
        hint="let the client download it again, or run forgepack fetch --out, which compares every byte",
        code=code,
    )


def _hops(path: Path) -> Iterator[Path]:
    """Yield a file's absolute path as it is named, then every path that its links lead over, the real one last."""
    here = Path(os.path.abspath(path))  # noqa: PTH100  (links stay as they are named)
    yield here
    for _ in range(_MAX_LINKS):
        here = Path(os.path.realpath(here.parent)) / here.name
        yield here
        if not here.is_symlink():
            return
        here = Path(os.path.normpath(here.parent / here.readlink()))
        yield here
    raise CorruptError("a loop of symbolic links", where=str(path), hint="remove the link", code="link-loop")


def _snapshot(path: Path) -> tuple[Path, str] | None:
    """Return the snapshot's folder that holds a path, and the commit that it is called by."""
    for folder in path.parents:
        if folder.parent.name == "snapshots" and is_commit(folder.name.lower()):
            return folder, folder.name.lower()
    return None


def _cache_of(path: Path) -> Path | None:
    found = _snapshot(path)
    return None if found is None else found[0].parent.parent


def _refuse_escape(source: Path, hops: list[Path], cache: Path | None) -> None:
    """Refuse a link to a file of this machine: what is adopted is copied, and published in the end."""
    real = hops[-1]
    inside = [source.resolve(), *([] if cache is None else [cache.resolve()])]
    blob = real.parent.name == "blobs" and _DIGEST.fullmatch(real.name) is not None and cache is None
    if not blob and not any(real.is_relative_to(folder) for folder in inside):
        raise CorruptError(
            "a link leads out of the folder",
            where=str(hops[0]),
            expected="a file in the folder, or a blob of the client's cache",
            found=f"a link to {real}",
            hint="copy the file itself into the folder, if it is the checkpoint's",
            code="link-escape",
        )
    if not real.exists():
        raise MissingError(
            "the client's cache lacks the file's bytes",
            where=str(hops[0]),
            found=f"a link to {real}, which is not there",
            hint="let the client download it again, or run forgepack fetch --out",
            code="missing",
        )


def _named(hops: Iterable[Path]) -> Iterator[Statement]:
    """Yield what names of folders and blobs state, on the way from the file to its bytes."""
    for hop in hops:
        found = _snapshot(hop)
        if found is not None:
            folder, commit = found
            yield Statement(place=str(folder), kind="commit", value=commit)
            repo = _REPO.fullmatch(folder.parent.parent.name)
            if repo is not None:
                yield Statement(place=str(folder.parent.parent), kind="repo", value=f"{repo[1]}/{repo[2]}")
        if hop.parent.name == "blobs" and _DIGEST.fullmatch(hop.name) is not None:
            yield Statement(place=str(hop), kind="digest", value=hop.name)


def _noted(source: Path, name: str, commit: str) -> Iterator[Statement]:
    """Yield what the notes of a local folder state: of a file its commit and digest, of the commit its files."""
    for notes in NOTES:
        note = source / notes / "download" / f"{name}.metadata"
        lines = [line.strip() for line in _read(note, _MAX_NOTE).decode("utf-8", "replace").split("\n")]
        if is_commit(lines[0].lower()):
            yield Statement(place=f"{note}: line 1", kind="commit", value=lines[0].lower())
        etag = lines[1].removeprefix("W/").strip('"').lower() if len(lines) > 1 else ""
        if _DIGEST.fullmatch(etag) is not None:
            yield Statement(place=f"{note}: line 2", kind="digest", value=etag)
        yield from _listed(source / notes / "trees" / f"{commit}.json", name, commit)


def _cached(cache: Path, name: str, commit: str) -> Iterator[Statement]:
    """Yield what a cache keeps beside its snapshots: the commit's list of files, and where its name points to."""
    yield from _listed(cache / "trees" / f"{commit}.json", name, commit)
    points = _read(cache / "refs" / commit, _MAX_NOTE).decode("utf-8", "replace").strip().lower()
    if is_commit(points):
        yield Statement(place=str(cache / "refs" / commit), kind="commit", value=points)
    absent = cache / ".no_exist" / commit / name
    if absent.exists():
        yield Statement(place=str(absent), kind="commit", value="none that holds the file, by the client's record")


def _listed(tree: Path, name: str, commit: str) -> Iterator[Statement]:
    """Yield what the client's copy of a commit's list says of a file."""
    data = _read(tree, _MAX_TREE)
    if not data:
        return
    listed = parse_json(data, where=str(tree))
    entry = listed.get("files", {}).get(name) if isinstance(listed, dict) else None
    if not isinstance(entry, dict):
        return
    place = f"{tree}: files.{name}"
    yield Statement(place=place, kind="commit", value=commit)
    for key in ("lfs_sha256",) if entry.get("lfs_sha256") else ("blob_id",):  # of LFS the blob is the pointer
        value = entry.get(key)
        if isinstance(value, str) and _DIGEST.fullmatch(value) is not None:
            yield Statement(place=f"{place}.{key}", kind="digest", value=value)


def _read(path: Path, limit: int) -> bytes:
    """Return a note's bytes, nothing where there is none; a note that can't be read is the caller's error."""
    try:
        return read_bounded(path, limit)
    except MissingError:
        return b""
