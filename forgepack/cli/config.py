"""forgepack.toml: where options come from when neither the command line nor a variable says them.

One mechanism for all commands: flag > FORGEPACK_* variable > forgepack.toml or [tool.forgepack] > default. The keys
at the top are the recipe, that is the options of ``forgepack build``; a table holds the options of the command that
it is named after. Paths are relative to the file. An unknown key, and one that ``settable`` leaves to the command
line, is an error, wherever it stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.settings_file import refuse_mark
from forgepack.artifacts.toml_file import parse_toml
from forgepack.cli.settable import Values, reads_file, settable
from forgepack.cli.variables import FindCommand, long_name, variables_of
from forgepack.closest import closest, did_you_mean
from forgepack.errors import CorruptError, ForgepackError, InputError, UsageError

CONFIG_FILE = "forgepack.toml"
PROJECT_FILE = "pyproject.toml"
RECIPE = "build"

# What click's own converters let through: infinity as an integer, a list as a number.
_REFUSED = (ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration: ``path`` is the file it was read from, ``defaults`` map command -> parameter -> value.

    A value may be a function: it raises the error of a key that is another command's, as soon as it is asked for.
    ``keys`` map command -> parameter -> the key that gave the value.
    """

    path: Path | None
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def find_config(named: Path | None) -> Path | None:
    """Return the file to read: the named one, else forgepack.toml or a pyproject.toml that speaks of this tool.

    Whatever has such a name and is not a folder is read, so that a link to nowhere or a pipe is an error:
    what the file demands may be stricter.
    """
    if named is not None:
        if not named.is_file():
            raise UsageError("no such configuration file", where=str(named))
        return named
    for path in (Path(CONFIG_FILE), Path(PROJECT_FILE)):
        if os.path.lexists(path) and not path.is_dir() and _table(path) is not None:
            return path
    return None


def load_config(named: Path | None, commands: Iterable[str], find_command: FindCommand) -> Config:
    """Read and check the configuration; UsageError names the key, what it may be, and the closest known one."""
    path = find_config(named)
    if path is None:
        return Config(path=None)
    table = _table(path)
    if table is None:
        raise UsageError("the file has no settings of forgepack", where=str(path), expected="[tool.forgepack]")
    return _Reader(path, list(commands), find_command).read(table)


def _table(path: Path) -> dict[str, Any] | None:
    """Return the part of a TOML file that is ours; None for a project file without any."""
    try:
        data = read_bounded(path)
        if path.name != PROJECT_FILE or _speaks_of_us(path):
            refuse_mark(data, "configuration", where=str(path))
        raw = parse_toml(data, where=str(path))
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
    return b"tool.forgepack" in read_bounded(path)


def _not_toml(path: Path, err: CorruptError) -> dict[str, Any]:
    raise UsageError("the configuration is not valid TOML", where=str(path), found=err.found) from err


class _Reader:
    """Takes a configuration's values, command by command, with the key of each."""

    def __init__(self, path: Path, commands: list[str], find_command: FindCommand) -> None:
        self.path, self.find_command = path, find_command
        self.tables = [name for name in commands if reads_file(name)]
        self.values: dict[str, dict[str, Any]] = {name: {} for name in self.tables}
        self.keys: dict[str, dict[str, str]] = {name: {} for name in self.tables}

    def read(self, table: Mapping[str, Any]) -> Config:
        """Return the configuration; UsageError names the first key that may not stand there."""
        recipe = options_of(RECIPE, self.find_command(RECIPE))
        for key, value in table.items():
            if isinstance(value, dict):
                if key not in self.tables:
                    raise _unknown(self.path, f"[{key}]", key, [*self.tables, *recipe], kind="table")
                for name, inner in value.items():
                    self._take(key, name, f"{key}.{name}", inner)
            elif key not in _options(self.find_command(RECIPE)):
                raise _unknown(self.path, key, key, [*recipe, *self.tables], kind="key")
            else:
                self._take(RECIPE, key, key, value)
        if "profile_name" in self.values[RECIPE]:
            self._spread_profile()
        return Config(path=self.path, defaults=self.values, keys=self.keys)

    def _take(self, command: str, name: str, key: str, value: Any) -> None:
        """Take one key's value as an option of a command."""
        known = _options(self.find_command(command))
        if name not in known:
            raise _unknown(self.path, key, name, options_of(command, self.find_command(command)), kind="key")
        allowed = settable(command, name).file
        if allowed is None:
            raise self._only_line(command, name, key, value)
        option = known[name]
        assert option.name is not None
        read = _value(self.path, key, value, option)
        if not allowed.hold(read):
            raise self._other_value(command, name, key, value=value, allowed=allowed)
        self.values[command][option.name], self.keys[command][option.name] = read, key

    def _spread_profile(self) -> None:
        """Let the recipe's profile be every command's that may take it; where it may not, asking for it raises."""
        value, key = self.values[RECIPE]["profile_name"], self.keys[RECIPE]["profile_name"]
        for name in self.tables:
            allowed = settable(name, "profile").file
            given = value
            if allowed is not None and not allowed.hold(value):
                given = _raising(self._other_value(name, "profile", key, value=value, allowed=allowed))
            self.values[name] = {"profile_name": given, **self.values[name]}
            self.keys[name] = {"profile_name": key, **self.keys[name]}

    def _only_line(self, command: str, name: str, key: str, value: Any) -> UsageError:
        may = options_of(command, self.find_command(command))
        return UsageError(
            f"a configuration sets --{name} of forgepack {command}, which only the command line may set",
            where=f"{self.path}: {key}",
            expected=f"at most {', '.join(sorted(may))}",
            found=repr(value)[:80],
            hint=f"remove the key, and give --{name} to forgepack {command}",
        )

    def _other_value(self, command: str, name: str, key: str, *, value: Any, allowed: Values) -> UsageError:
        return UsageError(
            f"a configuration sets --{name} of forgepack {command} to a value that only the command line may give",
            where=f"{self.path}: {key}",
            expected=allowed.shown,
            found=repr(value)[:80],
            hint=f"give --{name} {value} to forgepack {command}",
        )


def _raising(error: UsageError) -> Callable[[], NoReturn]:
    def call() -> NoReturn:
        raise error

    return call


def options_of(name: str, command: click.Command | None) -> dict[str, click.Option]:
    """Return the options of a command that a file may set, by their long names without dashes."""
    return {key: option for key, option in _options(command).items() if settable(name, key).file is not None}


def _options(command: click.Command | None) -> dict[str, click.Option]:
    params = command.params if command is not None else ()
    return {long_name(param): param for param in params if isinstance(param, click.Option)}


def refuse_weaker(config: Config, commands: Iterable[str], find_command: FindCommand) -> None:
    """Raise UsageError for a variable that takes back what the file demands: only the command line may."""
    for name in commands:
        for key, option in _options(find_command(name)).items():
            keeps, stated = settable(name, key).keeps, config.defaults.get(name, {}).get(option.name or "")
            found = option.value_from_envvar(click.Context(click.Command(name)))
            if keeps is None or stated is None or found is None:
                continue
            try:
                value = option.type_cast_value(click.Context(click.Command(name)), found)
            except click.BadParameter:
                continue  # the option itself says so
            if not keeps(value, stated):
                variable = variables_of(name, option)[0]
                raise UsageError(
                    f"a variable weakens what the configuration demands of --{key}",
                    where=variable,
                    expected=f"{stated}, as {config.path}: {config.keys[name][option.name or '']} says",
                    found=str(found)[:80],
                    hint=f"unset {variable}; only the command line may ask for less",
                )


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
    if isinstance(option.type, click.Path) or (option.name == "profile_name" and str(value).endswith(".json")):
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
