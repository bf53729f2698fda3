"""The leaves of JSON documents, and which line of ``coverage_leaves`` covers each: what no rule checks has a name.

A leaf is a value that is neither an object nor a list, or an empty one of either. Its path joins keys by dots and
writes ``[]`` for a place in a list: ``chunks[].taps[]``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from forgepack.verify.checks.coverage_leaves import LEAVES, Leaf

Keys = tuple[str | int, ...]


def leaves_of(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield (keys, value) of every leaf, in the order of the document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    empty = True
    for key, inner in items:
        empty = False
        yield from leaves_of(inner, (*keys, key))
    if empty:
        yield keys, value


def path_of(keys: Keys) -> str:
    """Return the path by which a line of the table names a leaf."""
    return "".join("[]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


@functools.lru_cache(maxsize=1 << 16)
def line_of(document: str, path: str) -> Leaf | None:
    """Return the first line that covers a leaf of a document (a POSIX path in a release), None where none does."""
    return next((line for line in _lines_of(document) if re.fullmatch(line.path, path)), None)


@functools.lru_cache(maxsize=1 << 10)
def _lines_of(document: str) -> tuple[Leaf, ...]:
    return tuple(line for line in LEAVES if re.fullmatch(line.document, document))


def unjudged(document: str, raw: Any) -> list[str]:
    """Return the paths of a document that no rule checks, sorted: an object of which none is checked by its own path.

    What states nothing (null, an empty object or list) is left out.
    """
    found, _ = _unjudged(document, raw, ())
    return sorted(set(found))


def _unjudged(document: str, value: Any, keys: Keys) -> tuple[list[str], bool]:
    """Return the paths below ``keys`` that are not checked, and whether something else is checked there."""
    if not isinstance(value, dict | list) or not value:
        line = line_of(document, path_of(keys))
        told = line is None or line.told
        states = value not in (None, {}, [])
        return ([path_of(keys)] if told and states else []), not told
    parts = [
        _unjudged(document, inner, (*keys, key))
        for key, inner in (value.items() if isinstance(value, dict) else enumerate(value))
    ]
    names, judged = [name for found, _ in parts for name in found], any(other for _, other in parts)
    whole = bool(names) and not judged and bool(keys)
    return ([path_of(keys)] if whole else names), judged
