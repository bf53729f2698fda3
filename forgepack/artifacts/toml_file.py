"""TOML read within bounds: size, nesting, dotted keys and numbers, each checked by code ``toml-…``."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any

from forgepack.errors import CorruptError, LimitError
from forgepack.limits import JSON_DEPTH, JSON_DIGITS, TOML_BYTES, TOML_DOTS

_GREATEST = 10**JSON_DIGITS


def parse_toml(data: bytes, *, where: str) -> dict[str, Any]:
    """Parse TOML; raise CorruptError or LimitError naming ``where``.

    Python's parser takes quadratic time for a key of many parts, and lets a RecursionError and a plain ValueError
    (an integer of over 4,300 digits) through.
    """
    dots = max((part.count(b".") for part in re.split(rb"[=\n]", data[: TOML_BYTES + 1])), default=0)
    for what, found, limit in (("bytes", len(data), TOML_BYTES), ("dots between two equals signs", dots, TOML_DOTS)):
        if found > limit:
            expected = f"at most {limit} {what}"
            raise LimitError(
                "the TOML file is over the limit", where=where, expected=expected, found=str(found), code="toml-limit"
            )
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as err:
        found = f"over {JSON_DEPTH} levels" if isinstance(err, RecursionError) else str(err)[:200]
        raise CorruptError("the file is not valid TOML", where=where, found=found, code="toml-syntax") from err
    _check_values(raw, where)
    return raw


def _check_values(raw: Any, where: str) -> None:
    """Refuse nesting that a later walk could overflow on, and numbers that no JSON could hold."""
    level, depth = [raw], 0
    while level:
        depth += 1
        if depth > JSON_DEPTH:
            raise CorruptError("nested too deeply", where=where, found=f"over {JSON_DEPTH} levels", code="toml-depth")
        below: list[Any] = []
        for node in level:
            for value in node.values() if isinstance(node, dict) else node:
                if isinstance(value, dict | list):
                    below.append(value)
                elif isinstance(value, int) and not -_GREATEST < value < _GREATEST:
                    found = f"more than {JSON_DIGITS} digits"
                    raise CorruptError("an integer is too long", where=where, found=found, code="toml-number")
                elif isinstance(value, float) and not math.isfinite(value):
                    raise CorruptError("a number is not finite", where=where, found=str(value), code="toml-number")
        level = below
