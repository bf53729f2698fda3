"""forgepack.toml: where options come from when neither the command line nor a variable says them.

One mechanism for all commands: flag > FORGEPACK_* variable > forgepack.toml or [tool.forgepack] > default. The keys
at the top are the recipe, that is the options of ``forgepack build``; a table holds the options of the command that
it is named after. Paths are relative to the file. An unknown key is an error, wherever it stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.toml_file import parse_toml
from forgepack.closest import closest, did_you_mean
from forgepack.errors import CorruptError, ForgepackError, InputError, UsageError

CONFIG_FILE = "forgepack.toml"
PROJECT_FILE = "pyproject.toml"
PREFIX = "FORGEPACK_"
RECIPE = "build"
# What must be said each time: it overwrites, weakens a verification, names its subject, or changes what is printed.
EVERY_TIME = frozenset(
    {
        *("force", "dry_run", "exit_zero", "locked", "plain", "bundle", "hub", "template"),
        *("as_json", "quiet", "verbose", "help"),
    }
)
# Commands that read nothing but their arguments.
WITHOUT = frozenset({"diff", "inspect", "demo", "explain", "rules", "schema", "doctor", "completion"})

# What click's own converters let through: infinity as an integer, a list as a number.
_REFUSED = (ValueError, TypeError, OverflowError)

FindCommand = Callable[[str], click.Command | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration: ``path`` is the file it was read from, ``defaults`` map command -> parameter -> value."""

    path: Path | None
    defaults: Mapping[str, Mapping[str, Any]]


def find_config(named: Path | None) -> Path | None:
    """Return the file to read: the named one, else forgepack.toml or a pyproject.toml that speaks of this tool."""
    if named is not None:
        if not named.is_file():
            raise UsageError("no such configuration file", where=str(named))
        return named
    for path in (Path(CONFIG_FILE), Path(PROJECT_FILE)):
        if path.is_file() and _table(path) is not None:
            return path
    return None


def load_config(named: Path | None, commands: Iterable[str], find_command: FindCommand) -> Config:
    """Read and judge the configuration; UsageError names the key, what it may be, and the closest known one."""
    path = find_config(named)
    if path is None:
        return Config(path=None, defaults={})
    table = _table(path)
    if table is None:
        raise UsageError("the file says nothing of forgepack", where=str(path), expected="[tool.forgepack]")
    return Config(path=path, defaults=_defaults(path, table, list(commands), find_command))


def _table(path: Path) -> dict[str, Any] | None:
    """Return the part of a TOML file that is ours; None for a project file without any."""
    try:
        raw = parse_toml(read_bounded(path), where=str(path))
    except CorruptError as err:
        if not err.code.startswith("toml-"):
            raise UsageError("the configuration can't be read", where=str(path), found=err.what) from err
        return None if path.name == PROJECT_FILE and not _speaks_of_us(path) else _not_toml(path, err)
    except InputError as err:
        raise UsageError("the configuration can't be read", where=str(path), found=err.what) from err
    if path.name != PROJECT_FILE:
        return raw
    tools = raw.get("tool", {})
    table = tools.get("forgepack") if isinstance(tools, dict) else None
    return table if isinstance(table, dict) else None


def _speaks_of_us(path: Path) -> bool:
    return b"tool.forgepack" in path.read_bytes()


def _not_toml(path: Path, err: CorruptError) -> dict[str, Any]:
    raise UsageError("the configuration is not valid TOML", where=str(path), found=err.found) from err


def _defaults(
    path: Path, table: Mapping[str, Any], commands: list[str], find_command: FindCommand
) -> dict[str, dict[str, Any]]:
    tables = [name for name in commands if name not in WITHOUT]
    recipe = options_of(find_command(RECIPE))
    found: dict[str, dict[str, Any]] = {name: {} for name in tables}
    for key, value in table.items():
        if isinstance(value, dict):
            if key not in tables:
                raise _unknown(path, f"[{key}]", key, [*tables, *recipe], kind="table")
            found[key] |= _values(path, f"{key}.", value, find_command(key))
        elif key not in recipe:
            raise _unknown(path, key, key, [*recipe, *tables], kind="key")
        else:
            found[RECIPE] |= _values(path, "", {key: value}, find_command(RECIPE))
    if "profile" in table:
        for name in tables:
            found[name] = {"profile_name": found[RECIPE]["profile_name"], **found[name]}
    return found


def _values(path: Path, prefix: str, table: Mapping[str, Any], command: click.Command | None) -> dict[str, Any]:
    known, found = options_of(command), {}
    for key, value in table.items():
        if key not in known:
            raise _unknown(path, prefix + key, key, known, kind="key")
        option = known[key]
        assert option.name is not None
        found[option.name] = _value(path, prefix + key, value, option)
    return found


def options_of(command: click.Command | None) -> dict[str, click.Option]:
    """Return the options that a file may set, by their long names without dashes."""
    found = {}
    for param in command.params if command is not None else ():
        if isinstance(param, click.Option) and param.name not in EVERY_TIME:
            name = next((text[2:] for text in param.opts if text.startswith("--")), None)
            if name is not None:
                found[name] = param
    return found


def _value(path: Path, where: str, value: Any, option: click.Option) -> Any:
    """Return a value as its option takes it, paths relative to the file; UsageError when the option does not."""
    place = f"{path}: {where}"
    if option.is_flag != isinstance(value, bool):
        expected = "true or false" if option.is_flag else _expected(option)
        raise UsageError(
            "a key of the configuration has another type", where=place, expected=expected, found=repr(value)
        )
    if option.multiple != isinstance(value, list):
        expected = "a list" if option.multiple else _expected(option)
        raise UsageError(
            "a key of the configuration has another type", where=place, expected=expected, found=repr(value)
        )
    if any(isinstance(one, str) and "\0" in one for one in (value if isinstance(value, list) else [value])):
        raise UsageError("no option takes a NUL", where=place, found=repr(value)[:80])
    if isinstance(option.type, click.Path):
        value = [_path(path, place, one) for one in value] if option.multiple else _path(path, place, value)
    try:
        option.type_cast_value(click.Context(click.Command("config")), value)
    except (click.BadParameter, *_REFUSED) as err:
        raise _bad_value(place, value, option) from err
    return value


def _path(path: Path, place: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError("a path must be a text", where=place, found=repr(value)[:80])
    return str(path.parent / value)


def _bad_value(place: str, value: Any, option: click.Option) -> ForgepackError:
    hint = None
    if isinstance(option.type, click.Choice):
        found = closest(str(value), map(str, option.type.choices))
        hint = None if found is None else f"did you mean {found!r}?"
    return UsageError(
        "a key of the configuration has a value that its option does not take",
        where=place,
        expected=_expected(option),
        found=repr(value)[:80],
        hint=hint,
    )


def _expected(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return f"one of {', '.join(str(choice) for choice in option.type.choices)}"
    return f"a value of {option.opts[0]} ({option.type.name})"


def _unknown(path: Path, where: str, key: str, known: Iterable[str], *, kind: str) -> UsageError:
    names = sorted({*known})
    hint = did_you_mean(key.replace("_", "-"), names, otherwise=f"known here: {', '.join(names)}")
    return UsageError(f"the configuration has an unknown {kind}", where=f"{path}: {where}", found=key[:80], hint=hint)


def unknown_variables(commands: Iterable[str], find_command: FindCommand) -> list[tuple[str, str | None]]:
    """Return (name, closest known one) of each FORGEPACK_* variable that no option reads."""
    there = sorted(name for name in os.environ if name.startswith(PREFIX))
    if not there:
        return []
    known = {f"{PREFIX}{name}" for name in ("PROFILE", "CONFIG", "ISOLATED", "QUIET", "VERBOSE")}
    for name in commands:
        command = find_command(name)
        for param in command.params if command is not None else ():
            known.add(f"{PREFIX}{name}_{param.name}".upper().replace("-", "_"))
    unread = [name for name in there if name not in known]
    return [(name, closest(name, known)) for name in unread]
