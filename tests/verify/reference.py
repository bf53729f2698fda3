"""The reference of rules, made from the rules: ``python -m tests.verify.reference`` writes it.

docs/reference/rules.md has every rule; the README has one row an area, between two marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from forgepack.render.rules import rules_table
from forgepack.verify.rule import AREAS, all_rules

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs/reference/rules.md"
BEGIN, END = "<!-- made by python -m tests.verify.reference -->", "<!-- end of the table of rules -->"
# One rule an area that says best what the area is for.
_FOR_INSTANCE = {
    "TAP": "TAP003",
    "HEAD": "HEAD003",
    "VOC": "VOC004",
    "TOK": "TOK001",
    "WGT": "WGT012",
    "NUM": "NUM003",
    "FMT": "FMT012",
    "PKG": "PKG019",
    "PATH": "PATH001",
    "SRC": "SRC001",
    "LIC": "LIC001",
    "CTR": "CTR004",
}


def areas_table() -> str:
    """Return the README's table: each area, how many rules it has, and one of them."""
    return "\n".join(_areas()) + "\n"


def _areas() -> Iterator[str]:
    titles = {one.id: one.title for one in all_rules()}
    yield "| area | rules | about | for instance |"
    yield "|---|---|---|---|"
    for area, about in AREAS.items():
        count = sum(one.area == area for one in all_rules())
        ident = _FOR_INSTANCE[area]
        yield f"| {area} | {count} | {about} | {ident}: {titles[ident]} |"


def reference() -> str:
    """Return docs/reference/rules.md."""
    count = len(all_rules())
    return f"""# Rules of the verifier

The {count} rules of `forgepack verify`, written by `python -m tests.verify.reference` from the rules themselves. Ids
are stable for ever. A rule is evaluated from its depth on: `header`, `hash`, `lineage` (the default), `run`. A failed
`error` refuses; a `warning` does so under `--strict`. `forgepack explain RULE` says what a rule demands, why a fault
is silent, and how to mend it; `forgepack rules --format json` has all of it for programs.

{areas_table()}
{rules_table()}"""


def with_table(readme: str) -> str:
    """Return the README with its table of rules made anew."""
    part = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return part.sub(lambda _: f"{BEGIN}\n\n{areas_table()}\n{END}", readme)


if __name__ == "__main__":
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(reference())
    README.write_text(with_table(README.read_text()))
