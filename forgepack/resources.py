"""Where the files that ship with the tool are: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

from forgepack.closest import did_you_mean
from forgepack.errors import UsageError

_PACKAGE = Path(__file__).parent
_CHECKOUT = {"mini": "fixtures/mini", "schemas": "schemas"}


def data_folder(name: str) -> Path:
    """Return the folder of shipped data called ``mini`` or ``schemas``."""
    packed = _PACKAGE / "data" / name
    folder = packed if packed.is_dir() else _PACKAGE.parent / _CHECKOUT[name]
    if not folder.is_dir():
        raise UsageError("files that ship with the tool are missing", where=str(folder), hint="install it again")
    return folder


def schema_names() -> list[str]:
    """Return the names of the shipped JSON Schemas."""
    return sorted(p.name.removesuffix(".schema.json") for p in data_folder("schemas").glob("*.schema.json"))


def schema_path(name: str) -> Path:
    """Return the file of a schema; UsageError lists the names when there is none of that name."""
    if name not in schema_names():
        stem = name.removesuffix(".json").removesuffix(".schema")
        hint = did_you_mean(stem, schema_names(), otherwise="forgepack schema --list prints the names")
        raise UsageError("no such schema", found=name, expected=", ".join(schema_names()), hint=hint)
    return data_folder("schemas") / f"{name}.schema.json"
