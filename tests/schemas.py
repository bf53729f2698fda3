"""The shipped schemas as others judge by them: another implementation, which the product does not use."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from forgepack.resources import schema_path


def is_refused(value: Any, name: str) -> bool:
    """Say whether a value is refused by the schema ``name``; a whole number is one that is written as such."""
    return not _validator(name).is_valid(value)


@functools.cache
def _validator(name: str) -> Any:
    schema = json.loads(schema_path(name).read_bytes())
    Draft202012Validator.check_schema(schema)
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, found: type(found) is int)
    return extend(Draft202012Validator, type_checker=types)(schema)  # type: ignore[no-untyped-call]
