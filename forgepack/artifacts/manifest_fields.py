"""What the schema can't say of a target's manifest: what one of its fields says, the others must allow.

The bounds are what both public releases and the miniature have in common. A field whose meaning is not known is not
checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.artifacts.target import SCHEMA_NAME
from forgepack.artifacts.tree import unsafe_path
from forgepack.schema_check import schema_faults

KNOWN_VERSION = 1
Difference = tuple[str, Any, Any]
_ENTRY = re.compile(r"(?P<kind>[vp])(?P<rows>\d{1,6})_(?P<context>\d{1,6})k(_\w+)?")
_SIZE = re.compile(r"[1-9][0-9]{0,9}")
_STEP = 1024


def _counts(value: Any) -> bool:
    return type(value) is int and value > 0


def form_faults(raw: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield (path, expected, found) of each field that is stated in another form than the schema's.

    ``raw`` is a manifest that its reader took, here and below. Whether a path is safe is area PATH's.
    """
    for fault in schema_faults(dict(raw), SCHEMA_NAME):
        if not (fault.field.endswith("compiled") and unsafe_path(fault.value, "", where="")):
            yield fault.field, fault.expected, fault.found


def differences(raw: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield (path, expected, found) of each field that another field contradicts; forms are ``form_faults``'s."""
    block, pending = raw["T"], raw.get("pend")
    if _counts(pending) and pending != block:
        yield "pend", f"{block}, as T", pending
    yield from _context_sizes(raw)
    yield from _cache_rows(raw)
    yield from _packages(raw)
    for number, chunk in enumerate(raw["chunks"]):
        yield from _entries(raw, chunk, f"chunks[{number}]")


def prefill_gaps(raw: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each prefill context for which a chunk has no prefill entry of TP rows."""
    rows, contexts = raw.get("TP"), _contexts(raw, "pctxs")
    if not _counts(rows):
        return
    for number, chunk in enumerate(raw["chunks"]):
        wanted = [f"p{rows}_{context // _STEP}k" for context in contexts]
        missing = [name for name in wanted if name not in chunk["entries"]]
        if missing:
            yield f"chunks[{number}].entries", missing, chunk["entries"]


def _contexts(raw: Mapping[str, Any], key: str) -> list[int]:
    stated = raw.get(key)
    return [size for size in stated if _counts(size)] if isinstance(stated, list) else []


def _context_sizes(raw: Mapping[str, Any]) -> Iterator[Difference]:
    for key in ("ctxs", "pctxs"):
        odd = [size for size in _contexts(raw, key) if size % _STEP]
        if odd:
            yield key, f"multiples of {_STEP}: entry points are named by them", odd


def _cache_rows(raw: Mapping[str, Any]) -> Iterator[Difference]:
    stated = raw.get("kv_len")
    known = {*_contexts(raw, "ctxs"), *_contexts(raw, "pctxs")}
    for key, rows in stated.items() if isinstance(stated, Mapping) else ():
        context = int(key) if _SIZE.fullmatch(key) else 0
        if context not in known:
            yield f"kv_len.{key}", f"a context of the build: {sorted(known)}", key
        elif _counts(rows) and rows > context:
            yield f"kv_len.{key}", f"at most {context} rows", rows


def _packages(raw: Mapping[str, Any]) -> Iterator[Difference]:
    names = Counter([raw["head"]["file"], *(chunk["file"] for chunk in raw["chunks"])])
    for name, count in sorted(names.items()):
        if count > 1:
            yield "chunks", "one package each for the head and every chunk", f"{count} that name {name}"


def _entries(raw: Mapping[str, Any], chunk: Mapping[str, Any], where: str) -> Iterator[Difference]:
    entries, rows = chunk["entries"], {"v": raw["T"], "p": raw.get("TP")}
    known = {*_contexts(raw, "ctxs"), *_contexts(raw, "pctxs")}
    for name, count in Counter(entries).items():
        match = _ENTRY.fullmatch(name)
        if count > 1:
            yield f"{where}.entries", "distinct names", f"{count} times {name}"
        elif match is not None and _counts(rows[match["kind"]]) and int(match["rows"]) != rows[match["kind"]]:
            key = "T" if match["kind"] == "v" else "TP"
            yield f"{where}.entries", f"rows of a call as {key} states: {rows[match['kind']]}", name
        elif match is not None and int(match["context"]) * _STEP not in known:
            yield f"{where}.entries", f"contexts of the build: {sorted(known)}", name
    for place, stated in ((where, chunk.get("entries_by_soc")), ("", raw.get("entries_by_soc"))):
        if place or where == "chunks[0]":
            yield from _by_chip(stated, entries, f"{place}.entries_by_soc".lstrip("."))


def _by_chip(stated: Any, entries: list[str], where: str) -> Iterator[Difference]:
    """Yield names of a table by chip that are not entry points of the chunk."""
    for chip, table in stated.items() if isinstance(stated, Mapping) else ():
        for plain, name in table.items() if isinstance(table, Mapping) else ():
            missing = [one for one in (plain, name) if isinstance(one, str) and one not in entries]
            if missing:
                yield f"{where}.{chip}.{plain}", "entry points of the chunk", missing
