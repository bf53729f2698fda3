"""The reference of commands, made from their own definitions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from forgepack.cli.examples import EXAMPLES
from forgepack.cli.main import COMMANDS, forgepack
from forgepack.cli.settable import reads_file, settable

_SHARED = ("quiet", "verbose", "help")


def find_command(name: str) -> click.Command:
    """Return a command by its name."""
    command = forgepack.get_command(click.Context(forgepack), name)
    assert command is not None
    return command


def commands_page() -> str:
    """Return the page of commands."""
    intro = [
        "# Commands",
        "",
        "Data goes to stdout, messages to stderr. `-q` leaves errors only, `-v` says more, `-h` shows help of a",
        "command; they go before or after its name. Exit codes: [exit-codes.md](exit-codes.md). Options with a",
        "*key* may be set in a [configuration file](configuration.md); the others are said each time.",
        "",
        " · ".join(f"[{name}](#{name})" for name in COMMANDS),
        "",
        "Before the command's name:",
        "",
        *_table(list(forgepack.params), "forgepack"),
    ]
    return "\n".join([*intro, *(line for name in COMMANDS for line in _section(find_command(name)))]) + "\n"


def _section(command: click.Command) -> Iterator[str]:
    name = command.name or ""
    context = click.Context(command, info_name=f"forgepack {name}", help_option_names=["-h", "--help"])
    usage = " ".join(["forgepack", name, *command.collect_usage_pieces(context)])
    yield from ("", f"## {name}", "", f"    {usage}", "")
    yield inspect.cleandoc(command.help or "")
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in _SHARED]
    if options:
        yield from ("", *_table(options, name))
    yield from ("", *(f"    {line}" for line in EXAMPLES[name]))


def _table(params: list[click.Parameter] | list[click.Option], command: str) -> Iterator[str]:
    keyed = reads_file(command)
    yield "| option | means | default |" + (" key |" if keyed else "")
    yield "|---|---|---|" + ("---|" if keyed else "")
    for param in params:
        if isinstance(param, click.Option):
            name = _long(param)[2:]
            key = "" if settable(command, name).file is None else f"`{name}`"
            yield f"| {_spelled(param)} | {escape_cell(param.help or '')} | {default_of(param)} |" + (
                f" {key} |" if keyed else ""
            )


def _long(option: click.Option) -> str:
    return next(text for text in option.opts if text.startswith("--"))


def _spelled(option: click.Option) -> str:
    """Return the option's names with the name of its value or its choices."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return f"`{names}`"
    value = option.metavar or "\\|".join(getattr(option.type, "choices", ())) or option.type.name
    more = " (again and again)" if option.multiple else ""
    return f"`{names} {value}`{more}"


def default_of(option: click.Option) -> str:
    """Return an option's default as the help shows it."""
    if isinstance(option.show_default, str):
        return option.show_default
    if option.required:
        return "required"
    if not option.show_default:
        return ""
    if option.secondary_opts:
        return f"`{option.opts[0] if option.default else option.secondary_opts[0]}`"
    return f"`{option.default}`"


def escape_cell(text: str) -> str:
    """Return text that a table's cell can hold."""
    return " ".join(text.split()).replace("|", "\\|")
