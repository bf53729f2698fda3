"""The answer to a typo: a question that names the closest known word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest to ``word`` in spelling, letter case aside; None when none is close."""
    spelled = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), spelled, n=1)
    return spelled[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return a question that names the closest known word, or ``otherwise``."""
    found = closest(word, known)
    return otherwise if found is None else f"did you mean {found}?"
