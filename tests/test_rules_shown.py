"""Every rule of the verifier has a test that shows it refuse."""

from __future__ import annotations

from forgepack.verify.policy.rule import all_rules
from tests.rules_shown import LIST, listed_rules, rules_list


def test_every_rule_is_shown() -> None:
    """The list names each rule once, in order; a rule without a test has no line, and is found here."""
    assert [one.id for one in all_rules()] == [ident for ident, _ in listed_rules()]
    assert LIST.read_text() == rules_list(dict(listed_rules()))
