"""Stand-ins: a program that is filled afterwards is the one that Core AI writes over the values themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.coreai_backend.asset_writer import write_program
from forgepack.coreai_backend.builder import build_program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.placeholders import SMALLEST, Placeholders
from forgepack.emit.constants_file import comes_late
from forgepack.emit.graph import drafter_functions
from forgepack.emit.table import constant_table
from forgepack.errors import InternalError
from tests.emit.synthetic import ODD, RECIPE, geometry, make_weights


def test_a_filled_program_is_the_one_written_over_the_values(tmp_path: Path) -> None:
    """Byte for byte, for the whole drafter: only the payloads of the late constants were missing from it."""
    g, sources = geometry(ODD), make_weights(ODD)
    table, placeholders = constant_table(g, RECIPE), Placeholders()

    def value(role: str) -> NamedConstant:
        spec = table[role]
        return NamedConstant(name=role, dtype=spec.dtype, shape=spec.shape, data=spec.evaluate(sources))

    def stand_in(role: str) -> NamedConstant:
        spec = table[role]
        return placeholders.constant(role, spec.dtype, spec.shape) if comes_late(spec) else value(role)

    functions = drafter_functions(g, RECIPE)
    expected = write_program(build_program(functions, value), tmp_path / "values.aimodel").read_bytes()
    path = write_program(build_program(functions, stand_in), tmp_path / "filled.aimodel")
    places = placeholders.locate(path)
    assert places.keys() == {role for role, spec in table.items() if comes_late(spec)}
    filled = bytearray(path.read_bytes())
    assert expected != bytes(filled)
    for role, place in places.items():
        data = value(role).data.tobytes()
        filled[place : place + len(data)] = data
    assert expected == bytes(filled)


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


@pytest.fixture
def made() -> tuple[Placeholders, list[bytes]]:
    """Return two stand-ins of 40 and of the fewest bytes, as Core AI writes them."""
    placeholders = Placeholders()
    constants = [placeholders.constant(name, "I8", (size,)) for name, size in (("a", 40), ("b", SMALLEST))]
    return placeholders, [constant.data.tobytes() for constant in constants]


def test_stand_ins_are_found_in_any_order(made: tuple[Placeholders, list[bytes]], tmp_path: Path) -> None:
    """Wherever the writer put them, at odd offsets too, and as often as they are looked for."""
    placeholders, (a, b) = made
    path = write(tmp_path / "p", b"text", b, b"12345", a)
    assert {"b": 4, "a": 9 + SMALLEST} == placeholders.locate(path)
    assert {"b": 4, "a": 9 + SMALLEST} == placeholders.locate(path)


@pytest.mark.parametrize(
    "order",
    ["a", "", "abb", "aba", "b a[:39]"],
    ids=["missing", "all missing", "last twice", "first twice", "cut short"],
)
def test_a_file_without_each_of_them_once_is_refused(
    made: tuple[Placeholders, list[bytes]], tmp_path: Path, order: str
) -> None:
    """A constant that the writer left out, wrote twice or did not finish can't be filled."""
    placeholders, (a, b) = made
    parts = {"a": a, "b": b, "b a[:39]": b + a[:39]}
    data = parts[order] if order in parts else b"".join(parts[name] for name in order)
    path = write(tmp_path / "p", b"text", data)
    with pytest.raises(InternalError, match="Core AI"):
        placeholders.locate(path)


def test_the_mark_of_another_program_is_content(made: tuple[Placeholders, list[bytes]], tmp_path: Path) -> None:
    """Bytes that look like a stand-in of an earlier program are no stand-in of this one."""
    placeholders, (a, b) = made
    other = Placeholders().constant("a", "I8", (40,)).data.tobytes()
    assert {"a": 40, "b": 80} == placeholders.locate(write(tmp_path / "p", other, a, b))
