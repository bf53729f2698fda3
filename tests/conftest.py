"""What holds for the whole suite: rules that a test is said to show are seen to fail in it."""

from __future__ import annotations

import pytest

from tests.rules_shown import RulesShown, listed_rules


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the list of rules and tests anew."""
    parser.addoption("--rules-list", action="store_true", help="write tests/RULES.md from what fails in which test")


def pytest_configure(config: pytest.Config) -> None:
    """Note which rules fail in which test."""
    config.pluginmanager.register(RulesShown(listed_rules(), write=config.getoption("--rules-list")))
