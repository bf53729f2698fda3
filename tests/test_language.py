"""Plain English: phrases that readers stumble over are in no message, help, docstring or page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PHRASES = (
    "held against",
    "is told",
    "are told",
    "be told",
    "in vain",
    "by habit",
    "of ours",
    "whoever",
    "what came of",
    "lies",
    "lie",
)
_FOUND = re.compile(rf"\b({'|'.join(PHRASES)})\b".replace(" ", r"\s+"), re.IGNORECASE)


def test_no_phrase_that_readers_stumble_over() -> None:
    """Each file of the tool and each page is searched, in any case and across line ends."""
    files = [*ROOT.glob("forgepack/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    found = []
    for path in files:
        text = path.read_text("utf-8")
        found += [f"{path.relative_to(ROOT)}: {' '.join(match[0].split())}" for match in _FOUND.finditer(text)]
    assert [] == found
