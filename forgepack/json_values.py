"""JSON values as rules compare them: what is at a path, and equality that counts types, as ``==`` does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lookup(value: Any, path: str) -> Any:
    """Return what is at a dotted path of nested objects, or None where a step is missing."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def equal_json(found: Any, expected: Any) -> bool:
    """Equal in value and in JSON type: true is not 1, 8.0 is not 8, a list is not a text; 256 may stand for 256.0.

    Some writers of JSON drop a fraction of zero and none adds one; what counts with a whole number fails on 8.0.
    """
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(found) == len(expected)
            and all(equal_json(f, e) for f, e in zip(found, expected, strict=True))
        )
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and set(found) == set(expected)
            and all(equal_json(found[key], value) for key, value in expected.items())
        )
    kinds = (int, float) if isinstance(expected, float) else type(expected)
    return isinstance(found, kinds) and bool(found == expected)


def equal_json_strict(one: Any, other: Any) -> bool:
    """Equal in value and in JSON type both ways: what has one writer has one form, so 256 is not 256.0 either."""
    return equal_json(one, other) and equal_json(other, one)
