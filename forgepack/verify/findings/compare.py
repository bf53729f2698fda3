"""Comparing a stated value with the one that is demanded, and saying so in one form."""

from __future__ import annotations

from typing import Any

from forgepack.escaping import told_apart
from forgepack.verify.findings.report import Finding

_SHOWN = 200


def shown(value: Any) -> str:
    """Return a value for a message: JSON-like, at most 200 characters."""
    text = "nothing" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def differing(subject: str, where: str, *, expected: Any, found: Any, message: str = "") -> Finding:
    """Return the finding for two values that were compared."""
    wanted, there = told_apart(shown(expected), shown(found))
    return Finding(subject=subject, where=where, expected=wanted, found=there, message=message)
