"""Every rule of the verifier has a test that shows it refuse."""

from __future__ import annotations

from pathlib import Path

from forgepack.verify.policy.rule import all_rules
from tests.rules_shown import LIST, listed_rules, rules_list


def test_every_rule_is_shown() -> None:
    """The list names each rule once, in order; a rule without a test has no line, and is found here."""
    assert [one.id for one in all_rules()] == [ident for ident, _ in listed_rules()]
    assert LIST.read_text() == rules_list(dict(listed_rules()))


def test_the_tests_that_are_named_are_there() -> None:
    """Each line names a function that its file defines: a test that went takes its line along."""
    named = {test.partition("[")[0].partition("::") for _, test in listed_rules()}
    lost = [f"{file}::{name}" for file, _, name in named if f"def {name}(" not in _text(LIST.parent / file)]
    assert [] == sorted(lost)


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""
