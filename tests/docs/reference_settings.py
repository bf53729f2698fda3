"""The reference of settings: keys of forgepack.toml and variables of the environment, made from the options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from forgepack.cli.config import RECIPE, options_of
from forgepack.cli.main import COMMANDS
from forgepack.cli.settable import Values, reads_file, settable
from forgepack.cli.variables import variables_of
from tests.docs.reference_commands import default_of, escape_cell, find_command

_VARIABLES = {
    "FORGEPACK_PROFILE": "`--profile` of every command",
    "FORGEPACK_QUIET, FORGEPACK_VERBOSE": "`-q` and `-v`",
    "FORGEPACK_COMMAND_OPTION": "an option of one command, for instance `FORGEPACK_VERIFY_DEPTH=run`, where the "
    "tables below name the variable; an unknown name is reported on stderr",
    "HF_TOKEN": "the hub's token; else the hub's own store. It appears in no log, lock or report",
    "HF_ENDPOINT": "a mirror of the hub",
    "HTTPS_PROXY, HTTP_PROXY, NO_PROXY": "as usual",
    "SOURCE_DATE_EPOCH": "the asset's creation date in `emit` and `build`, seconds since 1970; a fixed one otherwise",
    "NO_COLOR, FORCE_COLOR": "colours of `demo`'s tables and of live displays",
    "TMPDIR": "where `demo` works, and where assets are read and run",
}


def configuration_page() -> str:
    """Return the page of settings."""
    tables = [name for name in COMMANDS if reads_file(name)]
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
        "What weakens a verification, names its subject, replaces or writes anything is set by the command line",
        "alone: `--select`, `--ignore`, `--waivers`, `--baseline`, `--attestation`, `--allow-links`, `--exit-zero`,",
        "`--report`, `--force`, outputs, a depth below the default, `--config`, `--isolated`. A variable or a key",
        "that sets one of them is an error (exit 2) that names it. Neither can a variable take back what the file",
        "demands (`strict`, `deny`, a greater `depth`). Every report lists the options that decided it, and where",
        "each came from.",
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
    for key, option in options_of(command, find_command(command)).items():
        means = escape_cell(option.help or "")
        kind = _kind(option, settable(command, key).file)
        variables = ", ".join(f"`{name}`" for name in variables_of(command, option))
        yield f"| `{key}` | {kind} | {means} | {default_of(option)} | {variables} |"


def _kind(option: click.Option, allowed: Values | None) -> str:
    if option.is_flag:
        kind = "true or false"
    elif allowed is not None and allowed.choices is not None:
        kind = ", ".join(f'`"{choice}"`' for choice in allowed.choices())
    elif isinstance(option.type, click.Choice):
        kind = ", ".join(f'`"{choice}"`' for choice in option.type.choices)
    elif isinstance(option.type, click.types.IntParamType):
        kind = "whole number"
    elif isinstance(option.type, click.types.FloatParamType):
        kind = "number"
    else:
        kind = "path" if isinstance(option.type, click.Path) else "text"
    return f"list of {kind}" if option.multiple else kind
