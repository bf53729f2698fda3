"""The reference of settings: keys of forgepack.toml and variables of the environment, made from the options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from forgepack.cli.config import PREFIX, RECIPE, WITHOUT, options_of
from forgepack.cli.main import COMMANDS
from tests.docs.reference_commands import default_of, escape_cell, find_command

_VARIABLES = {
    "FORGEPACK_PROFILE": "`--profile` of every command",
    "FORGEPACK_CONFIG, FORGEPACK_ISOLATED, FORGEPACK_QUIET, FORGEPACK_VERBOSE": "the options before a command's name",
    "FORGEPACK_COMMAND_OPTION": "an option of one command, for instance `FORGEPACK_VERIFY_DEPTH=hash`; an unknown "
    "name is told on stderr",
    "HF_TOKEN": "the hub's token; else the hub's own store. It appears in no log, lock or report",
    "HF_ENDPOINT": "a mirror of the hub",
    "HTTPS_PROXY, HTTP_PROXY, NO_PROXY": "as usual",
    "SOURCE_DATE_EPOCH": "the asset's creation date in `emit` and `build`, seconds since 1970; a fixed one otherwise",
    "NO_COLOR, FORCE_COLOR": "colours of `demo`'s tables and of live displays",
    "TMPDIR": "where `demo` works, and where assets are read and run",
}


def configuration_page() -> str:
    """Return the page of settings."""
    tables = [name for name in COMMANDS if name not in WITHOUT]
    lines = [
        "# Configuration",
        "",
        "Options come from the command line, then from the environment, then from a file, then from their defaults.",
        "",
        "## Variables",
        "",
        "| variable | sets |",
        "|---|---|",
        *(f"| `{name.replace(', ', '`, `')}` | {text} |" for name, text in _VARIABLES.items()),
        "",
        "## forgepack.toml",
        "",
        "`forgepack.toml` of the current folder, else `[tool.forgepack]` of its `pyproject.toml`; `--config FILE`",
        "names another, `--isolated` reads none. Paths are relative to the file. Unknown keys, tables and values are",
        "errors.",
        "`forgepack schema forgepack_toml` prints the schema, for completion in an editor.",
        "",
        "### At the top: the recipe of `forgepack build`",
        "",
        *_keys(RECIPE),
        "",
        "`profile` at the top is every command's.",
    ]
    for name in tables:
        if name != RECIPE:
            lines += ["", f"### [{name}]", "", *_keys(name)]
    return "\n".join(lines) + "\n"


def _keys(command: str) -> Iterator[str]:
    yield "| key | value | means | default | variable |"
    yield "|---|---|---|---|---|"
    for key, option in options_of(find_command(command)).items():
        means = escape_cell(option.help or "")
        yield f"| `{key}` | {_kind(option)} | {means} | {default_of(option)} | `{_variable(command, option)}` |"


def _variable(command: str, option: click.Option) -> str:
    if isinstance(option.envvar, str):
        return option.envvar
    return f"{PREFIX}{command}_{option.name}".upper().replace("-", "_")


def _kind(option: click.Option) -> str:
    if option.is_flag:
        kind = "true or false"
    elif isinstance(option.type, click.Choice):
        kind = ", ".join(f'`"{choice}"`' for choice in option.type.choices)
    elif isinstance(option.type, click.types.IntParamType):
        kind = "whole number"
    elif isinstance(option.type, click.types.FloatParamType):
        kind = "number"
    else:
        kind = "path" if isinstance(option.type, click.Path) else "text"
    return f"list of {kind}" if option.multiple else kind
