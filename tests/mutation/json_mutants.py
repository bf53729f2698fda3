"""Every change of one place of a JSON file: value, type, missing, duplicate, off by one, reordered, extra."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

_TWICE = "\x01twice"
_MISSING = object()
Path = tuple[str | int, ...]
Change = Callable[[Any, Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonMutant:
    """One changed place: its dotted path, the kind of change, and what makes the file's new bytes."""

    place: str
    kind: str
    make: Callable[[], bytes]


def json_mutants(data: bytes) -> Iterator[JsonMutant]:
    """Yield every mutant of a JSON file that holds one object."""
    raw = json.loads(data)
    for kind, changed in _file_changes(data, raw).items():
        yield JsonMutant(place="", kind=kind, make=partial(bytes, changed))
    for path, kind, change in _changes_below(raw, ()):
        yield JsonMutant(place=_dotted(path), kind=kind, make=partial(_changed, data, path, change))


def _changed(data: bytes, path: Path, change: Change) -> bytes:
    """Return the file with one change: ``change`` gets the container and the key, for () the root and None."""
    root = json.loads(data)
    node = root
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1] if path else None)
    return json.dumps(root).encode().replace(json.dumps(_TWICE)[1:-1].encode(), b"")


def _dotted(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def _file_changes(data: bytes, raw: Any) -> dict[str, bytes]:
    return {
        "written again": json.dumps(raw, separators=(",", ":"), ensure_ascii=True).encode(),
        "keys in another order": json.dumps(_reversed_keys(raw), indent=1).encode(),
        "byte-order mark": b"\xef\xbb\xbf" + data,
        "UTF-16": data.decode().encode("utf-16"),
        "data after it": data + b"{}",
        "cut in half": data[: len(data) // 2],
        "empty file": b"",
        "a list around it": b"[" + data + b"]",
        "a number that is none": b'{"x": NaN,' + data.lstrip()[1:],
    }


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value


def _changes_below(node: Any, path: Path) -> Iterator[tuple[Path, str, Change]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    if isinstance(node, dict):
        yield (*path, "unknown_key"), "extra", partial(_put, 1)
    for key, value in items:
        here = (*path, key)
        for kind, other in changes(value):
            yield here, kind, partial(_put, other)
        yield here, "missing", _drop
        if isinstance(node, dict):
            yield here, "duplicate", partial(_twin, value)
            yield here, "duplicate with another value", partial(_twin, next((v for _, v in changes(value)), 0))
        if isinstance(value, dict | list):
            yield from _changes_below(value, here)


def _put(value: Any, node: Any, key: Any) -> None:
    node[key] = value


def _drop(node: Any, key: Any) -> None:
    del node[key]


def _twin(value: Any, node: Any, key: Any) -> None:
    node[f"{key}{_TWICE}"] = value


def changes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (kind, new value) of every change of one value that keeps it in its place."""
    if value is not None:
        yield "null", None
    for kind, make in _CHANGES.get(type(value), ()):
        changed = make(value)
        if changed is not _MISSING:
            yield kind, changed


def _changed_text(text: str) -> Any:
    return text[:-1] + ("0" if text[-1] != "0" else "1") if text else "x"


def _unless_equal(change: Callable[[Any], Any], value: Any) -> Any:
    changed = change(value)
    return _MISSING if changed == value else changed


def _whole(value: float) -> Any:
    return int(value) if value.is_integer() else _MISSING


_CHANGES: dict[type, tuple[tuple[str, Callable[[Any], Any]], ...]] = {
    bool: (("value", lambda v: not v), ("type", int)),
    int: (
        ("off by one", lambda v: v + 1),
        ("off by one below", lambda v: v - 1),
        ("type", str),
        ("as a float", float),
        ("true for it", lambda v: True if v == 1 else _MISSING),
    ),
    float: (
        ("value", lambda v: v * 2 + 1),
        ("one part in a million", lambda v: v * (1 + 1e-6)),
        ("type", str),
        ("as an integer", _whole),
    ),
    str: (
        ("value", _changed_text),
        ("type", lambda v: [v]),
        ("in other case", partial(_unless_equal, str.swapcase)),
        ("empty", partial(_unless_equal, lambda v: "")),
    ),
    list: (
        ("type", lambda v: {"0": v}),
        ("empty", partial(_unless_equal, lambda v: [])),
        ("reordered", partial(_unless_equal, lambda v: v[::-1])),
        ("first two exchanged", partial(_unless_equal, lambda v: v[1:2] + v[:1] + v[2:])),
        ("last one twice", partial(_unless_equal, lambda v: v + v[-1:])),
    ),
    dict: (("type", lambda v: [v]), ("empty", partial(_unless_equal, lambda v: {}))),
    type(None): (("value", lambda v: 0), ("type", lambda v: "null")),
}
