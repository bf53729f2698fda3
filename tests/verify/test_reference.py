"""The documentation's tables of rules are those of the rules."""

from __future__ import annotations

from forgepack.render.rules import rules_table
from forgepack.verify.rule import all_rules
from tests.verify.reference import README, REFERENCE, areas_table, reference, with_table


def test_the_reference_is_up_to_date() -> None:
    """docs/reference/rules.md has every rule: write it again with python -m tests.verify.reference."""
    assert reference() == REFERENCE.read_text()
    assert all(f"| {one.id} | {one.severity} | {one.depth.label} |" in rules_table() for one in all_rules())


def test_the_readme_is_up_to_date() -> None:
    """The README's table counts the rules of each area."""
    text = README.read_text()
    assert areas_table() in text
    assert with_table(text) == text
    assert "](docs/reference/rules.md)" in text
