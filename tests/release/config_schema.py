"""The JSON Schema of forgepack.toml, made of the commands' options: ``python -m tests.release.config_schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from forgepack.canonical import dump_canonical
from forgepack.cli.config import RECIPE, options_of
from forgepack.cli.main import COMMANDS, forgepack
from forgepack.cli.settable import Values, reads_file, settable

SCHEMA = Path(__file__).parents[2] / "schemas/forgepack_toml.schema.json"


def config_schema() -> dict[str, Any]:
    """Return the schema: the recipe's keys at the top, a table for each command that reads the file."""
    tables = {name: table_schema(name) for name in COMMANDS if reads_file(name)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "forgepack.toml",
        "description": "A release's recipe and the options of commands; paths are relative to the file.",
        "type": "object",
        "additionalProperties": False,
        "properties": {**tables[RECIPE]["properties"], **tables},
    }


def table_schema(name: str) -> dict[str, Any]:
    """Return the schema of one command's options."""
    command = forgepack.get_command(click.Context(forgepack), name)
    options = options_of(name, command)
    properties = {key: option_schema(option, settable(name, key).file) for key, option in options.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def option_schema(option: click.Option, allowed: Values | None) -> dict[str, Any]:
    """Return the schema of one option's value, of which a file may give those that are ``allowed``."""
    kind: dict[str, Any] = {"type": "string"}
    if option.is_flag:
        kind = {"type": "boolean"}
    elif allowed is not None and allowed.choices is not None:
        kind = {"enum": list(allowed.choices())}
    elif isinstance(option.type, click.Choice):
        kind = {"enum": [str(choice) for choice in option.type.choices]}
    elif isinstance(option.type, click.types.IntParamType):
        kind = {"type": "integer"}
    elif isinstance(option.type, click.types.FloatParamType):
        kind = {"type": "number"}
    schema = {"type": "array", "items": kind} if option.multiple else kind
    return {"description": option.help, **schema} if option.help else schema


if __name__ == "__main__":
    SCHEMA.write_bytes(dump_canonical(config_schema()))
