"""Which test shows each rule of the verifier refuse, seen as the tests run and kept in RULES.md.

Every test that the list names must see its rule fail again, or it fails itself. ``pytest --rules-list`` over the
whole suite writes the list anew: for each rule the test in which the fewest others fail.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from forgepack.verify import engine
from forgepack.verify.policy.rule import all_rules

LIST = Path(__file__).with_name("RULES.md")
_HEAD = """# Each rule, and a test that shows it refuse

Written by `pytest --rules-list`; every test named here fails when its rule no longer does. Files are below `tests/`.

| rule | test |
|---|---|
"""
_ROW = re.compile(r"^\| ([A-Z]+[0-9]{3}) \| `(.+)` \|$", re.MULTILINE)


class RulesShown:
    """A pytest plugin that notes which rules fail in which test."""

    def __init__(self, rows: Iterable[tuple[str, str]], *, write: bool) -> None:
        self._write = write
        self._listed: dict[str, set[str]] = {}
        for ident, test in rows:
            self._listed.setdefault(test, set()).add(ident)
        self._failed: set[str] = set()
        self._found: dict[str, tuple[int, str]] = {}
        self._evaluate = engine.evaluate
        engine.evaluate = self._seen  # type: ignore[assignment]

    def _seen(self, *arguments: Any) -> Any:
        check = self._evaluate(*arguments)
        if check.status == "fail":
            self._failed.add(check.id)
        return check

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hold what fails in a test against what the list says of it."""
        self._failed.clear()
        result = yield
        name = item.nodeid.removeprefix("tests/")
        for ident in self._failed:
            self._found[ident] = min(self._found.get(ident, (1 << 30, "")), (len(self._failed), name))
        lost = self._listed.get(name, set()) - self._failed
        assert self._write or not lost, f"{LIST.name} says that this test shows {', '.join(sorted(lost))}"
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the list when asked to; rules that nothing showed keep no line."""
        if self._write:
            LIST.write_text(rules_list({ident: test for ident, (_, test) in self._found.items()}))


def listed_rules() -> list[tuple[str, str]]:
    """Return (rule, test) of every line of the list."""
    return _ROW.findall(LIST.read_text()) if LIST.exists() else []


def rules_list(found: dict[str, str]) -> str:
    """Return the list as RULES.md holds it, rules in their order."""
    return _HEAD + "".join(f"| {one.id} | `{found[one.id]}` |\n" for one in all_rules() if one.id in found)
