"""Plain English: phrases that readers stumble over are in no message, help, docstring or page."""

from __future__ import annotations

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
    " lies ",
    " lie ",
)


def test_no_phrase_that_readers_stumble_over() -> None:
    """Each file of the tool and each page is searched as it is written, line by line."""
    files = [*ROOT.glob("forgepack/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {phrase}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        for phrase in PHRASES
        if phrase in line
    ]
    assert [] == found
