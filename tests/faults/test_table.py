"""TABLE.md names every row once, and only tests and cases that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = (
    *(1, 2, 4, 5, 6, 8, 10, 11, 13, 14, 15, 17, 18, 19, 21, 23, 24, 25, 26, 27, 29, 30, 31, 32, 34, 36, 37, 39),
    *(41, 42, 43, 44, 45, 47, 49, 50, 51, 53, 54, 55, 57, 59, 61, 62, 63, 65, 66, 68, 70, 71),
)
# The rows of the second list that this version answers; the others belong to later ones.
TRIED = (
    *(f"A{number}" for number in range(1, 19)),
    *("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B11", "B13"),
    *(f"C{number}" for number in range(1, 9)),
    *(f"D{number}" for number in range(1, 11)),
    *(f"E{number}" for number in range(1, 7)),
)
REFERENCE = re.compile(r"`([\w/]+\.py)(?:::(\w+)(?:\[([^`]+)\])?)?`")


def test_every_row_is_there_once() -> None:
    """The table has one line for each row of the list, in its order, with a test or a reason."""
    lines = re.findall(r"^\| (\d+) \|[^|]+\| (.+) \|$", (HERE / "TABLE.md").read_text(), re.MULTILINE)
    assert list(ROWS) == [int(number) for number, _ in lines]
    assert all(REFERENCE.search(text) or "n/a" in text for _, text in lines)


def test_every_fault_that_was_tried_is_there_once() -> None:
    """The second table has one line for each row that is answered, in order, each with a test."""
    lines = re.findall(r"^\| ([A-E]\d+) \|[^|]+\| (.+) \|$", (HERE / "TABLE.md").read_text(), re.MULTILINE)
    assert list(TRIED) == [row for row, _ in lines]
    assert all(REFERENCE.search(text) for _, text in lines)


def test_named_tests_exist() -> None:
    """Each file, test function and case that the table names is in the suite."""
    found = REFERENCE.findall((HERE / "TABLE.md").read_text())
    assert len(found) > 90
    for file, function, case in found:
        path = HERE.parent / file
        names = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        assert not function or function in names, (file, function)
        # A case may stand in a table of its own beside the test.
        beside = (one.read_text() for one in sorted(path.parent.glob("*.py")))
        assert not case or any(f'"{case}"' in source for source in beside), (file, case)
