"""The reference of what a Python program may call, made from ``forgepack.api`` itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from forgepack import api
from forgepack.errors import ForgepackError
from tests.docs.reference_commands import escape_cell

_SETUP = """The examples are one story, each after those before it, in a folder in which this was run:

```sh
forgepack demo --files mini
```

They begin with these lines. `HUB` is the address of a hub: in the tests one on loopback that serves the miniature,
as https://huggingface.co, the default, serves published drafters; the release is uploaded to it at `COMMIT`. Without
a hub, `api.adopt("mini/checkpoint", out="checkpoint", profile="mini")` takes the place of the first example: the
results then warn that nobody compared the checkpoint with a hub's record, and `verify_published` is left out.

```python
import json
import shutil
from pathlib import Path

from forgepack import api
```

`StrPath` is a text or any `os.PathLike`; `TargetName` is a `StrPath`, the target's release root, or a
[TargetParts](#targetparts); `DepthName` is one of "header", "hash", "lineage" and "run"; a `Listener` is called with
a [Progress](#progress)."""
_TYPES = """Results are frozen. The JSON form of a [Report](#report), the `raw` of a [ReplayReport](#replayreport) and
the `report` of a [QuantizeResult](#quantizeresult) are described in [files and reports](formats.md). A type that is
named in a table and has no heading is private: its attributes may change."""


def api_page() -> str:
    """Return the page of the public face."""
    lines = ["# Python", "", *_prose(api), "", _SETUP, "", "## Functions", ""]
    lines.append(" · ".join(f"[{name}](#{name.lower()})" for name in api.FUNCTIONS))
    for name in api.FUNCTIONS:
        lines += ["", f"### {name}", "", *_function(getattr(api, name))]
    lines += ["", "## Results and options", "", _TYPES]
    for name in _types():
        lines += ["", f"### {name}", "", *_type(name)]
    lines += ["", "## Errors", "", "| error | exit code | of | means |", "|---|---|---|---|"]
    lines += [_error(name) for name in _errors()]
    return "\n".join(lines) + "\n"


def documented() -> set[str]:
    """Return the names that the page has a heading or a row for."""
    return {*api.FUNCTIONS, *_types(), *_errors()}


def _types() -> list[str]:
    return sorted({*api.TYPES, "Progress"})


def _errors() -> list[str]:
    """Return the names of the errors, each after the one that it is of."""
    found = [name for name in api.__all__ if inspect.isclass(one := getattr(api, name)) and _is_error(one)]
    return sorted(found, key=lambda name: (len(getattr(api, name).__mro__), getattr(api, name).exit_code, name))


def _is_error(one: type) -> bool:
    return issubclass(one, ForgepackError)


def _prose(documented: Any) -> Iterator[str]:
    """Yield what a docstring says before its example, in Markdown."""
    text = inspect.cleandoc(documented.__doc__ or "")
    for line in text.partition("\n>>> ")[0].strip().splitlines():
        yield re.sub(r"``(.+?)``", r"`\1`", line)


def _function(function: Callable[..., Any]) -> Iterator[str]:
    yield from ("```python", *_signature(function), "```", "", *_prose(function))
    example = inspect.cleandoc(function.__doc__ or "").partition("\n>>> ")[2]
    yield from ("", "```python", *f">>> {example}".rstrip().splitlines(), "```")


def _signature(function: Callable[..., Any]) -> Iterator[str]:
    signature, named = inspect.signature(function), False
    yield f"{function.__name__}("
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not named:
            named = True
            yield "    *,"
        default = "" if one.default is one.empty else f" = {_shown(one.default)}"
        yield f"    {one.name}: {one.annotation}{default},"
    yield f") -> {signature.return_annotation}"


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _type(name: str) -> Iterator[str]:
    """Yield a type: what it is, then its fields with their types, its properties, or its members."""
    kind = getattr(api, name)
    yield from _prose(kind)
    rows = [f"| `{one.name}` | `{escape_cell(_public(str(one.type)))}` | {_default(one)} |" for one in _fields(kind)]
    if rows:
        yield from ("", "| field | type | default |", "|---|---|---|", *rows)
    if issubclass(kind, Enum):
        rows = [f"| `{member.name}` | `{member.value}` |" for member in kind]
        yield from ("", "| member | value |", "|---|---|", *rows)
    more = [f"| `{found}` | {escape_cell(' '.join(text.split()))} |" for found, text in _members(kind)]
    if more:
        yield from ("", "| member | is |", "|---|---|", *more)


def _public(name: str) -> str:
    """Return the name under which the public face knows a type."""
    known = {other: name for name, place in api.TYPES.items() if (other := place.partition(": ")[2])}
    return known.get(name, name)


def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(kind) if is_dataclass(kind) else ()


def _default(one: Field[Any]) -> str:
    if one.default is not MISSING:
        return f"`{_shown(one.default)}`"
    made = one.default_factory
    return "" if made is MISSING else f"`{_public(getattr(made, '__name__', ''))}()`"


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Yield properties, and methods with their parameters, in the order in which they are defined."""
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, re.sub(r"``(.+?)``", r"`\1`", value.__doc__ or "")
        elif inspect.isfunction(value):
            parameters = [one for one in inspect.signature(value).parameters if one != "self"]
            yield f"{name}({', '.join(parameters)})", re.sub(r"``(.+?)``", r"`\1`", value.__doc__ or "")


def _error(name: str) -> str:
    kind = getattr(api, name)
    base = "" if kind is ForgepackError else f"`{kind.__mro__[1].__name__}`"
    text = " ".join(" ".join(_prose(kind)).split())
    return f"| `{name}` | {kind.exit_code} | {base} | {escape_cell(text)} |"
