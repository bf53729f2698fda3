"""What a schema expects of a value, in words: one short phrase that completes "expected: ..."."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number, written without a fraction",
    "number": "a number",
}
_BOUNDS = {
    "exclusiveMinimum": "over {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
    "minItems": "at least {} in it",
    "maxItems": "at most {} in it",
    "uniqueItems": "no two alike",
    "minProperties": "at least {} in it",
    "maxLength": "at most {} characters",
}
_PATH = "a relative path of plain names"
_PATTERNS = {
    r"\S": "a text that is not blank",
    r"^[0-9a-f]{16}$(?!\n)": "16 lower-case hex digits",
    r"^[0-9a-f]{32}$(?!\n)": "32 lower-case hex digits",
    r"^[0-9a-f]{40}$(?!\n)": "40 lower-case hex digits",
    r"^[0-9a-f]{64}$(?!\n)": "64 lower-case hex digits",
    r"^[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*$(?!\n)": "owner/name",
    r"^[^/]+/[^/]+$(?!\n)": "owner/name",
    r"^[^/]+$(?!\n)": "a single name",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$(?!\n)": "a date as 2026-12-31",
    r"^[1-9][0-9]{0,9}$(?!\n)": "a positive whole number in digits",
    r"^[A-Z]{3,4}[0-9]{3}$(?!\n)": "the id of a rule",
    r'^(?!/)(?!.*(^|/)\.{1,2}(/|$))[^\\:*?"<>|\x00-\x1f]+$(?!\n)': _PATH,
    r"^(?!\.{1,2}(/|$))[^/\\]+(/(?!\.{1,2}(/|$))[^/\\]+)*$(?!\n)": _PATH,
    r"^[^/\\*?\[\]]([^\\*?\[\]]*[^/\\*?\[\]])?$(?!\n)": _PATH,
}


def words_of(schema: Mapping[str, Any]) -> str:
    """Return what a schema says of the value itself; nothing where it only refers to others."""
    if "const" in schema:
        return _plain(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(map(_plain, schema['enum']))}"
    stated = schema.get("type", "string" if "pattern" in schema else [])
    types = " or ".join(_TYPES[name] for name in ([stated] if isinstance(stated, str) else stated))
    if "pattern" in schema:
        text = _PATTERNS.get(schema["pattern"], f"a text that matches {schema['pattern']}")
        types = types.replace(_TYPES["string"], text)
    elif schema.get("minLength"):
        types = types.replace(_TYPES["string"], "a text that is not empty")
    # A pattern says the length in better words.
    bounds = [text.format(schema[key]) for key, text in _BOUNDS.items() if key in schema and "pattern" not in schema]
    return ", ".join([types, *bounds]) if types else ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
