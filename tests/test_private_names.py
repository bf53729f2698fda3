"""Every private name of another package that this tool uses stands on a list, and a canary test names it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import forgepack
from tests.coreai_backend.test_bindings import NAMES as CORE_AI
from tests.hub.test_canaries import PRIVATE_NAMES as HUB

PACKAGE = Path(forgepack.__file__).parent
# Where private names may stand at all, and the canaries that name them.
CANARIES = {
    "coreai_backend/bindings.py": [part for name in CORE_AI for part in name.replace(":", ".").split(".")],
    "hub/session.py": [part for name in HUB for part in name.split(".")],
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield underscored parts of imports from other packages, and underscored attributes of all but self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if not str(node.module).startswith("forgepack"):
                yield from filter(is_private, [*str(node.module).split("."), *(one.name for one in node.names)])
        elif isinstance(node, ast.Import):
            yield from filter(is_private, [part for one in node.names for part in one.name.split(".")])
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and not hasattr(sys.modules.get(owner), node.attr):
                yield node.attr


def test_private_names_stand_in_two_files_and_each_has_a_canary() -> None:
    """A private name anywhere else, or one without a canary, would break without a word at the next release."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = set(private_names(ast.parse(path.read_text("utf-8"))))
        if names:
            found[path.relative_to(PACKAGE).as_posix()] = names
    assert set(CANARIES) == set(found)
    assert {} == {file: missing for file, names in found.items() if (missing := names - set(CANARIES[file]))}


def test_the_search_sees_what_it_looks_for() -> None:
    """Imports of private modules and names, and private attributes, are found; own ones and os._exit are not."""
    text = "import a._b\nfrom c import _d\nfrom forgepack.e import _f\nx._g.h\nself._i\nos._exit(0)\nj.__name__\n"
    assert ["_b", "_d", "_g"] == sorted(private_names(ast.parse(text)))
