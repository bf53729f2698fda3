"""Mutants of JSON files: every leaf changed in value, type or presence."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
ANYTHING: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 0.5, 1e308, 10**30, "", "x", "../x", "\x00", "0" * 64),
    *([], {}, [1], ["a"], [[1]], [None], {"a": 1}, [{"a": 1}], {"a": {"b": 1}}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change: the path of keys, what was done there, and the whole changed value."""

    path: tuple[Any, ...]
    kind: str
    value: Any

    @property
    def name(self) -> str:
        """The path and the kind, for a test's message."""
        return f"{'.'.join(map(str, self.path))} {self.kind}"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (path, value) of every leaf; lists of plain values are leaves, too."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    else:
        yield path, value


def mutants(raw: Any) -> Iterator[Mutant]:
    """Yield two mutants of every leaf: another value of its type, and the key missing."""
    for path, value in leaves(raw):
        yield Mutant(path=path, kind="changed", value=put(raw, path, changed(value)))
        if not isinstance(path[-1], int):
            yield Mutant(path=path, kind="missing", value=put(raw, path))


def changed(value: Any) -> Any:
    """Return another value of the same type: off by one, doubled, reversed, one digit or letter else."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        swapped = ("0" if value[:1] != "0" else "1") + value[1:]
        return swapped if _DIGEST.fullmatch(value) else value + "x"
    if isinstance(value, list):
        return value[::-1] if value[::-1] != value else [*value, 1]
    return {"x": 1} if isinstance(value, dict) else "x"


def put(raw: Any, path: tuple[Any, ...], *value: Any) -> Any:
    """Return a copy of ``raw`` with the value at ``path`` replaced, or removed when none is given."""
    if not path:
        return value[0]
    out = copy.deepcopy(raw)
    node = out
    for key in path[:-1]:
        node = node[key]
    if value:
        node[path[-1]] = value[0]
    else:
        del node[path[-1]]
    return out
