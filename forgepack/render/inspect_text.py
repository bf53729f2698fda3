"""An inspection as one screen of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.escaping import escape_line
from forgepack.release.inspect.inspection import Inspection

_LINES = 30
_WIDTH = 200


def inspect_lines(found: Inspection) -> list[str]:
    """Return what was found: title, identity, facts, faults; long values are cut, --json has them whole."""
    lines = [f"{escape_line(str(found.path))}: {escape_line(found.title)}"]
    rows = [*found.identity.items(), *found.facts.items()]
    wide = min(26, max((len(name) for name, _ in rows), default=0))
    told = [f"  {escape_line(name):<{wide}}  {_shown(value)}" for name, value in rows]
    lines += told[:_LINES]
    if len(told) > _LINES:
        lines.append(f"  and {len(told) - _LINES} more: --json lists all")
    return [*lines, *_faults(found)]


def _shown(value: Any) -> str:
    text = escape_line(_text(value))
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in sorted(value.items()))
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _faults(found: Inspection) -> Iterator[str]:
    for fault in found.faults:
        where = f"{escape_line(fault.where)}: " if fault.where else ""
        yield f"fault  {fault.code}  {where}{_shown(fault.what)}"
