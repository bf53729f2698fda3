"""The reference of files and reports, made from their JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.resources import schema_names, schema_path
from tests.docs.reference_commands import escape_cell

_DEPTH = 3
_LEFT_OUT = {"forgepack_toml": "Its keys are in [configuration.md](configuration.md)."}


def formats_page() -> str:
    """Return the page of formats."""
    intro = [
        "# Files and reports",
        "",
        "Each is JSON; `forgepack schema NAME` prints its schema (JSON Schema 2020-12). What this tool writes is",
        "canonical: sorted keys, UTF-8, `\\n`, no date, no path of the machine; the same input gives the same bytes.",
        "A **bold** key is required. `{}` stands for any key, `[]` for each element.",
        "",
        " · ".join(f"[{name}](#{_anchor(name)})" for name in schema_names()),
    ]
    return "\n".join([*intro, *(line for name in schema_names() for line in _section(name))]) + "\n"


def _anchor(name: str) -> str:
    return name.replace(".", "")


def _section(name: str) -> Iterator[str]:
    schema = json.loads(schema_path(name).read_bytes())
    yield from ("", f"## {name}", "", f"**{schema.get('title', name)}**")
    if "description" in schema:
        yield from ("", schema["description"])
    if name in _LEFT_OUT:
        yield from ("", _LEFT_OUT[name])
        return
    yield from ("", "| key | value | means |", "|---|---|---|")
    yield from _rows(schema, schema, prefix="", level=1)


def _rows(schema: Mapping[str, Any], root: Mapping[str, Any], *, prefix: str, level: int) -> Iterator[str]:
    """Yield a row a key, those inside below it, to a depth at which a table still helps."""
    inner = dict(schema.get("properties", {}))
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        inner["{}"] = more
    required = schema.get("required", ())
    for key, raw in inner.items():
        value = _resolved(raw, root)
        path = f"{prefix}{key}"
        shown = f"**`{path}`**" if key in required else f"`{path}`"
        yield f"| {shown} | {escape_cell(_kind(value, root))} | {escape_cell(value.get('description', ''))} |"
        if level < _DEPTH:
            items = _resolved(value.get("items", {}), root) if isinstance(value.get("items", {}), dict) else {}
            yield from _rows(value, root, prefix=f"{path}.", level=level + 1)
            yield from _rows(items, root, prefix=f"{path}[].", level=level + 1)


def _resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its reference into the same file followed; a boolean schema says nothing."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" not in schema:
        return schema
    found: Any = root
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return {**_resolved(found, root), **{k: v for k, v in schema.items() if k != "$ref"}}


def _kind(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for joint in ("anyOf", "oneOf"):
        if joint in schema:
            return " or ".join(dict.fromkeys(_kind(_resolved(one, root), root) for one in schema[joint]))
    kind = schema.get("type", "anything")
    names = kind if isinstance(kind, list) else [kind]
    if schema.get("pattern", "").startswith("^[0-9a-f]{64}$"):
        names = ["SHA-256" if name == "string" else name for name in names]
    if "array" in names and isinstance(schema.get("items"), dict):
        of = _kind(_resolved(schema["items"], root), root)
        names = [f"array of {of}" if name == "array" else name for name in names]
    return " or ".join(names)
