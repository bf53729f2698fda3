"""Hostile text made visible: names from files may hold control characters, ANSI escapes or commands for a runner."""

from __future__ import annotations

import re

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


def _shown(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
