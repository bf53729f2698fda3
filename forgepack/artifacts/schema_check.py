"""Judge a JSON value by one of the schemas that ship with the tool."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from forgepack.canonical import parse_object
from forgepack.resources import schema_path

MAX_FAULTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """One place where a value is not what its schema says: JSON path, what is wrong, what was found."""

    path: str
    message: str
    found: str


def schema_faults(value: Any, name: str) -> tuple[SchemaFault, ...]:
    """Return the faults of ``value`` under the schema ``name``, sorted by path, at most 100.

    An integer is one that is written as such: JSON Schema would take 8.0, which fails where something is counted.
    """
    faults = []
    for error in _validator(name).iter_errors(value):
        message = error.message if len(error.message) <= 200 else f"is not valid under {error.validator}"
        faults.append(SchemaFault(path=error.json_path, message=message, found=repr(error.instance)[:80]))
        if len(faults) == MAX_FAULTS:
            break
    return tuple(sorted(faults, key=lambda fault: (fault.path, fault.message)))


@functools.cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    path = schema_path(name)
    schema = parse_object(path.read_bytes(), where=str(path))
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, found: type(found) is int)
    return extend(Draft202012Validator, type_checker=types)(schema)  # type: ignore[no-untyped-call]
