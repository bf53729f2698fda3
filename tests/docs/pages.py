"""Pages of the documentation, and what of them can be checked: sessions, links, anchors, generated parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_SCENE = re.compile(r"^<!-- session: (?P<name>[a-z]+) -->$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<to>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)


def find_pages() -> list[Path]:
    """Return every page, sorted: at the root, below docs/, and the fixtures' own."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("fixtures/**/README.md")])


def name_of(page: Path) -> str:
    """Return a page's path below the root."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a session, the lines that the page shows for it, and the exit code that it must have."""

    command: str
    output: tuple[str, ...]
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of ``console``: where its body stands in the page, and its steps."""

    start: int
    end: int
    steps: tuple[Step, ...]


def scene_of(text: str) -> str | None:
    """Return the scene in which a page's sessions run; None for a page without sessions."""
    match = _SCENE.search(text)
    return None if match is None else match["name"]


def blocks_of(text: str) -> list[Block]:
    """Return the sessions that a page shows, in order; ``console exit=1`` is the code of the last command."""
    found = []
    for match in _FENCE.finditer(text):
        kind, _, rest = match["info"].strip().partition(" ")
        if kind == "console":
            code = int(rest.removeprefix("exit=") or 0)
            found.append(Block(start=match.start("body"), end=match.end("body"), steps=_steps(match["body"], code)))
    return found


def _steps(body: str, code: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for chunk in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        lines = chunk.rstrip("\n").split("\n")
        words = [lines.pop(0)]
        while words[-1].endswith("\\") or ("<<END" in words[0] and words[-1] != "END"):
            words.append(lines.pop(0))
        steps.append(Step(command="\n".join(words), output=tuple(lines)))
    last = steps.pop()
    return (*steps, Step(command=last.command, output=last.output, code=code))


def links_of(text: str) -> list[str]:
    """Return where a page's links lead, those in code left out."""
    plain = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    return [match["to"] for match in _LINK.finditer(plain)]


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    found: set[str] = set()
    for slug in _slugs(_FENCE.sub("", text)):
        number = next(n for n in range(len(found) + 1) if (slug if n == 0 else f"{slug}-{n}") not in found)
        found.add(slug if number == 0 else f"{slug}-{number}")
    return found


def _slugs(text: str) -> Iterator[str]:
    for match in _HEADING.finditer(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["text"]).lower()
        yield re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
