"""Whether a file is a report that this tool wrote in a certain form: such a one may be replaced by a newer one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import open_regular
from forgepack.canonical import parse_object
from forgepack.errors import ForgepackError

_LIMIT = 64 << 20
_TEXT = re.compile(rb"[A-Z]+(, [^\n]*)?  profile [^\n]*, depth (header|hash|lineage|run)\n")
_JUNIT = re.compile(rb'<\?xml version="1\.0" encoding="utf-8"\?>\s*<testsuites name="forgepack[",]')
_GITHUB = re.compile(
    rb"(::(error|warning|notice) [^\n]*\n|[^:\n][^\n]*\n)*forgepack [a-z]+: \d+ of \d+ checks passed"
)


def is_report(path: Path, name: str) -> bool:
    """Say whether the regular file at ``path`` is a report in the form ``name``; False for what can't be read."""
    try:
        with open_regular(path) as handle:
            data = handle.read(_LIMIT + 1)
        return len(data) <= _LIMIT and _recognized(data, name)
    except ForgepackError:
        return False


def _recognized(data: bytes, name: str) -> bool:
    if name in ("json", "sarif"):
        raw = parse_object(data, where=name)
        return raw.get("tool") == "forgepack" and "verdict" in raw if name == "json" else _is_sarif(raw)
    pattern = {"text": _TEXT, "junit": _JUNIT, "github": _GITHUB}[name]
    return pattern.match(data) is not None


def _is_sarif(raw: dict[str, Any]) -> bool:
    match raw.get("runs"):
        case [{"tool": {"driver": {"name": "forgepack"}}}]:
            return True
    return False
