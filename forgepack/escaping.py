"""Hostile text made visible: names from files may hold control characters, ANSI escapes or commands for a runner."""

from __future__ import annotations

import re
import unicodedata

# Control, bidirectional, invisible and surrogate characters, and those that XML can't hold.
_MARKS = r"\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff"
_HOSTILE = re.compile(rf"[\x00-\x08\x0b-\x1f{_MARKS}]")
_HOSTILE_IN_LINE = re.compile(rf"[\x00-\x1f{_MARKS}]")
# A runner takes "::error ::text" at a line's start and "##[error]text" anywhere as a command to itself.
_COMMAND = re.compile(r"(?<=:):(?=[a-z-]+[ :])|(?<=#)#(?=[A-Za-z]*\[)")


def escape(text: str) -> str:
    """Return ``text`` with every control, bidirectional and surrogate character shown as an escape.

    Tabs and line ends stay: the lines are the tool's own.
    """
    return _HOSTILE.sub(_shown, text)


def escape_line(text: str) -> str:
    """Return ``text`` as one line that no terminal and no CI runner takes for anything but text."""
    return _COMMAND.sub(lambda m: f"\\x{ord(m.group()):02x}", _HOSTILE_IN_LINE.sub(_shown, text))


def told_apart(one: str, other: str) -> tuple[str, str]:
    """Return two texts to be shown together; with code points where they differ and look alike.

    They do when Unicode holds them for one text in two forms, or when they differ only in letters beyond ASCII: an
    accent that is a character of its own, a Cyrillic letter in place of a Latin one.
    """
    if one == other or not _alike(one, other):
        return one, other
    return ascii(one)[1:-1], ascii(other)[1:-1]


def _alike(one: str, other: str) -> bool:
    if unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other):
        return True
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
    return len(one) == len(other) and not any(a.isascii() and b.isascii() for a, b in pairs)


def _shown(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
