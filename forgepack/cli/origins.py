"""Where the options of a command came from: what a report says of those that decide its outcome."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from forgepack.cli.settable import settable
from forgepack.cli.variables import long_name, variables_of
from forgepack.verify.findings.report import Chosen


def chosen_options(ctx: click.Context, *, folders: bool = True) -> tuple[Chosen, ...]:
    """Return the options of a command that have not their defaults, by name, each with its origin.

    A file is shown as it was named, without ``folders`` by its name alone.
    """
    return tuple(sorted(_chosen(ctx, folders=folders), key=lambda one: one.name))


def _chosen(ctx: click.Context, *, folders: bool) -> Iterator[Chosen]:
    command = ctx.command.name or ""
    keys: Mapping[str, Mapping[str, str]] = ctx.find_root().meta.get("forgepack.keys", {})
    for option in ctx.command.params:
        if not isinstance(option, click.Option) or option.name is None:
            continue
        name, source = long_name(option), ctx.get_parameter_source(option.name)
        if not settable(command, name).told:
            continue
        value = _text(ctx.params.get(option.name))
        if source is ParameterSource.COMMANDLINE:
            yield Chosen(name=name, value=value, source="command line", place="")
        elif source is ParameterSource.ENVIRONMENT:
            variable = next(one for one in variables_of(command, option) if os.environ.get(one))
            yield Chosen(name=name, value=value, source="variable", place=variable)
        elif source is ParameterSource.DEFAULT_MAP:
            key = keys.get(command, {}).get(option.name, "")
            path = Path(ctx.find_root().meta["forgepack.config"])
            yield Chosen(name=name, value=value, source="file", place=f"{path if folders else path.name}: {key}")


def _text(value: Any) -> str:
    """Return an option's value as one line of text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ", ".join(_text(one) for one in value)
    return value.as_posix() if isinstance(value, Path) else str(value)
