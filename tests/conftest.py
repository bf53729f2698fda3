"""What holds for the whole suite: one good pair of the miniature, and rules that fail where they are said to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from forgepack.coreai_backend.process import Child
from forgepack.miniature.scene import Scene
from tests.miniature.show import show
from tests.release.scenes import build_scene
from tests.rules_shown import RulesShown, listed_rules

__all__ = ["show"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the list of rules and tests anew."""
    parser.addoption("--rules-list", action="store_true", help="write tests/RULES.md from what fails in which test")
    parser.addoption("--whole", action="store_true", help="look at all of what is sampled otherwise")


def pytest_configure(config: pytest.Config) -> None:
    """Note which rules fail in which test; no property has a time limit: a loaded machine is no fault."""
    settings.register_profile("forgepack", deadline=None)
    settings.load_profile("forgepack")
    config.pluginmanager.register(RulesShown(listed_rules(), write=config.getoption("--rules-list")))


@pytest.fixture
def whole(pytestconfig: pytest.Config) -> bool:
    """Say whether a test shall look at all of what it samples otherwise."""
    return bool(pytestconfig.getoption("--whole"))


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Build the miniature's good pair; it is never changed."""
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """Every child process that is started meanwhile."""
    children: list[Child] = []
    start = Child.__init__

    def counted(child: Child, *given: Any, **named: Any) -> None:
        children.append(child)
        start(child, *given, **named)

    monkeypatch.setattr(Child, "__init__", counted)
    return children
