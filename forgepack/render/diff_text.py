"""A comparison as lines: by file, each difference with both sides, by how much, and the rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from forgepack.escaping import escape_line
from forgepack.release.diff.compare import DRAFTER, Diff
from forgepack.release.diff.values import Difference

SHOWN = 12


def diff_lines(found: Diff, *, verbose: bool = False) -> list[str]:
    """Return the differences grouped by file; twelve a file unless ``verbose``."""
    lines = []
    for file, group in groupby(found.differences, key=lambda one: one.file):
        differences = list(group)
        lines.append(escape_line(file) if file else f"{found.kinds[0]}")
        shown = differences if verbose else differences[:SHOWN]
        lines += [line for one in shown for line in _lines(one)]
        if len(differences) > len(shown):
            lines.append(f"  and {len(differences) - len(shown)} more: -v lists all")
    return [*lines, _summary(found)]


def _summary(found: Diff) -> str:
    sides = zip((found.left, found.right), found.kinds, strict=True)
    names = " and ".join(f"{escape_line(str(path))} ({kind})" for path, kind in sides)
    if not found.differences:
        return f"equal: {names}"
    more = " or more" if found.cut else ""
    told = "" if found.rules is None else f"; rules: {' '.join(found.rules) or 'none fails'}"
    if found.rules is None and set(found.kinds) == {DRAFTER}:
        told = "; no rule was evaluated: name the profile by --profile"
    word = "difference" if len(found.differences) == 1 else "differences"
    return f"{len(found.differences)}{more} {word}: {names}{told}"


def _told(value: str | None) -> str:
    return "nothing" if value is None else escape_line(value)


def _lines(one: Difference) -> Iterator[str]:
    place = f" {escape_line(one.place)}" if one.place else ""
    rules = f"  [{' '.join(one.rules[:4])}]" if one.rules else ""
    yield f"  {one.kind}{place}{rules}"
    if one.amount is not None:
        amount = one.amount
        relative = "" if amount.relative == float("inf") else f" ({amount.relative:.2%} of the left side's)"
        unmatched = f", {amount.unmatched} not finite" if amount.unmatched else ""
        yield (
            f"    {amount.differing} of {amount.elements} values differ{unmatched}: "
            f"max {amount.maximum:.6g}, RMS {amount.rms:.6g}{relative}"
        )
    elif one.left != one.right:
        yield from (f"    {side:<6} {_told(value)}" for side, value in (("left:", one.left), ("right:", one.right)))
    if one.note:
        yield f"    {escape_line(one.note)}"
