"""Facts, the record that they make, and where two records differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.json_values import equal_json_strict


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that was found: where a record states it, its value, and where it was read.

    ``path`` is dotted and relative to the record of the thing (``head.sha256`` of a target); ``value`` is any JSON
    value, compared leaf by leaf. ``file`` is where it was read, ``part`` the JSON path or tensor in that file.
    ``subject`` names it in a report.
    """

    path: str
    value: Any
    file: Path
    part: str = ""
    subject: str = ""


class Absent:
    """What stands on the side that states nothing: no JSON value equals it."""

    def __repr__(self) -> str:
        """Return the word that reports print."""
        return "nothing"


ABSENT = Absent()


def record_of(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the nested record that facts make, in the form in which documents state it."""
    record: dict[str, Any] = {}
    for fact in facts:
        *above, last = fact.path.split(".")
        place = record
        for key in above:
            place = place.setdefault(key, {})
        place[last] = fact.value
    return record


def differences(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted path, expected, found) of every leaf in which two JSON values differ, types included.

    A leaf is anything but two objects; the side that lacks a key shows ABSENT.
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted({*expected, *found}):
            here = f"{path}.{key}" if path else key
            yield from differences(expected.get(key, ABSENT), found.get(key, ABSENT), here)
    elif not equal_json_strict(found, expected):
        yield path, expected, found
