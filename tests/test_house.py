"""The house: imports make no circle, rooms import what their docstrings allow, CONTRIBUTING's map shows them all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import forgepack

HOUSE = Path(forgepack.__file__).parent
MAP = HOUSE.parent / "CONTRIBUTING.md"
# Where callers come in, of the command line and of Python.
DOORS = {"__main__.py", "api.py"}
# A line of the map: the rooms of one floor, then what they hold.
_FLOOR = re.compile(r"^    ([a-z_.]+(?:, [a-z_.]+)*) {2,}\S", re.MULTILINE)


def modules(house: Path) -> dict[str, Path]:
    """Return name -> file of every module; a package goes by its own name."""
    files = {path: path.relative_to(house.parent).with_suffix("").parts for path in sorted(house.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in files.items()}


def import_graph(house: Path) -> dict[str, set[str]]:
    """Return which modules of the house each one imports, in functions and under TYPE_CHECKING, too."""
    files = modules(house)
    return {name: {other for other in _imported(path) if other in files} - {name} for name, path in files.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}: a relative import"
            assert not node.level, f"{path}: a relative import"
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of a circle, each imports the next; none where the imports have an order."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        return list(reversed(err.args[1]))
    return []


def rooms(house: Path) -> dict[str, set[str]]:
    """Return what the docstring of each room says that it may import, beside the ground floor."""
    folders = {
        path.parent: ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in house.rglob("__init__.py")
    }
    return {_room(folder, house): _stated(doc or "") for folder, doc in folders.items() if folder != house}


def _room(folder: Path, house: Path) -> str:
    return ".".join(folder.relative_to(house).parts)


def _stated(docstring: str) -> set[str]:
    _, found, names = docstring.partition("May import: ")
    assert found, f"a room does not say what it may import: {docstring}"
    line = " ".join(names.split())
    return set(line.removesuffix(".").split(", ")) - {"nothing"}


def breaches(house: Path) -> list[str]:
    """Return each import of a room that its docstring does not allow; the ground floor may import no room."""
    files, allowed = modules(house), {"": set(), **rooms(house)}
    found = []
    for name, others in import_graph(house).items():
        if files[name].parent == house and files[name].name in DOORS:
            continue
        own = _room(files[name].parent, house)
        strange = {other for other in others if not _holds({own, *allowed[own]}, _room(files[other].parent, house))}
        found += [f"{name} imports {other}" for other in sorted(strange)]
    return found


def _holds(allowed: set[str], room: str) -> bool:
    """Say whether a room is the ground floor, one of those that are allowed, or inside one of them."""
    return not room or any(room == name or room.startswith(f"{name}.") for name in allowed)


def floors() -> list[list[str]]:
    """Return the rooms of each floor of CONTRIBUTING's map, the lowest floor first."""
    section = MAP.read_text("utf-8").partition("## The house")[2].partition("\n## ")[0]
    return [names.split(", ") for names in _FLOOR.findall(section)]


def test_imports_make_no_circle() -> None:
    assert [] == circle(import_graph(HOUSE))


def test_rooms_import_what_their_docstrings_allow() -> None:
    assert [] == breaches(HOUSE)


def test_the_map_lists_the_rooms() -> None:
    assert sorted(["forgepack", *rooms(HOUSE)]) == sorted(name for floor in floors() for name in floor)


def test_rooms_stand_above_those_that_they_may_import() -> None:
    """Two rooms of one floor may import one another, file by file."""
    level = {name: number for number, floor in enumerate(floors()) for name in floor}
    below = {room: {name for name in allowed if level[name] <= level[room]} for room, allowed in rooms(HOUSE).items()}
    assert rooms(HOUSE) == below


@pytest.mark.parametrize(
    "hidden",
    [
        "import house.cellar.wine",
        "def f():\n    import house.cellar.wine",
        "if X:\n    from house.cellar import wine",
    ],
)
def test_a_circle_and_a_breach_are_found(tmp_path: Path, hidden: str) -> None:
    """Where the import is written makes no difference."""
    files = {
        "house/__init__.py": "",
        "house/cellar/__init__.py": '"""Bottles.\n\nMay import: nothing.\n"""',
        "house/cellar/wine.py": "from house.kitchen.cook import dinner",
        "house/kitchen/__init__.py": '"""Pots.\n\nMay import: cellar.\n"""',
        "house/kitchen/cook.py": hidden,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    house = tmp_path / "house"
    assert {"house.cellar.wine", "house.kitchen.cook"} == set(circle(import_graph(house)))
    assert ["house.cellar.wine imports house.kitchen.cook"] == breaches(house)
