"""``forgepack schema``: the JSON Schemas of what this tool reads and writes."""

from __future__ import annotations

import sys

import click

from forgepack.cli.common import offer
from forgepack.errors import UsageError
from forgepack.resources import schema_names, schema_path


@click.command()
@click.argument("name", required=False, shell_complete=offer(schema_names))
@click.option("--list", "listing", is_flag=True, help="List the names.")
def schema(*, name: str | None, listing: bool) -> None:
    """Print the JSON Schema called NAME: of a file or a report that this tool reads or writes."""
    if (name is None) != listing:
        raise UsageError("name one schema, or --list", expected=", ".join(schema_names()))
    if name is None:
        click.echo("\n".join(schema_names()))
        return
    sys.stdout.buffer.write(schema_path(name).read_bytes())
    sys.stdout.buffer.flush()
