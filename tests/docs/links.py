"""Relative links lead to files that are there, and to headings that they have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, anchors_of, find_pages, links_of, name_of

_ELSEWHERE = ("https://", "mailto:")


def broken_links(pages: list[Path] | None = None) -> list[str]:
    """Return each link of the pages, by default of all, that leads nowhere, out of the repository, or is no https."""
    return [fault for page in (find_pages() if pages is None else pages) for fault in _faults(page)]


def _faults(page: Path) -> Iterator[str]:
    shown = name_of(page) if page.is_relative_to(ROOT) else page.name
    for link in links_of(page.read_text("utf-8")):
        if link.startswith(_ELSEWHERE):
            continue
        path, _, anchor = link.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if "://" in link or (page.is_relative_to(ROOT) and not aim.is_relative_to(ROOT)):
            yield f"{shown}: {link} leaves the repository"
        elif not aim.exists():
            yield f"{shown}: {link} leads nowhere"
        elif anchor and (aim.suffix != ".md" or anchor not in anchors_of(aim.read_text("utf-8"))):
            yield f"{shown}: {link} has no such heading"
