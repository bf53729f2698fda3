"""The rules themselves, as JSON values and as a table: the reference that the documentation is made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.verify.policy.rule import Rule, all_rules


def rule_json(one: Rule) -> dict[str, Any]:
    """Return one rule as JSON values."""
    return {
        "id": one.id,
        "area": one.area,
        "title": one.title,
        "demand": " ".join(one.demand.split()),
        "severity": one.severity,
        "depth": one.depth.label,
        "needs": list(one.needs),
        "waivable": one.waivable,
        "why": one.why,
        "remedy": one.remedy,
        "since": one.since,
        "closes": one.closes or None,
    }


def rules_table() -> str:
    """Return all rules as a Markdown table, one row a rule."""
    return "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "| rule | severity | depth | holds when it passes |"
    yield "|---|---|---|---|"
    for one in all_rules():
        yield f"| {one.id} | {one.severity} | {one.depth.label} | {one.title} |"
