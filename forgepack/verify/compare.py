"""Comparing a stated value with the one that is demanded, and saying so in one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forgepack.verify.report import Finding

_SHOWN = 200


def same(found: Any, expected: Any) -> bool:
    """Equal in value and in JSON type: true is not 1, a list is not a text, 256 and 256.0 are one number."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(found) == len(expected)
            and all(same(f, e) for f, e in zip(found, expected, strict=True))
        )
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and set(found) == set(expected)
            and all(same(found[key], value) for key, value in expected.items())
        )
    return bool(found == expected) and isinstance(found, int | float) == isinstance(expected, int | float)


def shown(value: Any) -> str:
    """Return a value for a message: JSON-like, at most 200 characters."""
    text = "nothing" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def differing(subject: str, where: str, *, expected: Any, found: Any, message: str = "") -> Finding:
    """Return the finding for two values that were compared."""
    return Finding(subject=subject, where=where, expected=shown(expected), found=shown(found), message=message)


def lookup(value: Any, path: str) -> Any:
    """Return what lies at a dotted path of nested objects, or None where a step is missing."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
