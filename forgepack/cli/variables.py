"""FORGEPACK_* variables: which options read them, and which of them may not be set there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import click

from forgepack.cli.settable import LINE, PROGRAM, settable
from forgepack.closest import closest
from forgepack.errors import UsageError

PREFIX = "FORGEPACK_"
PROFILE = f"{PREFIX}PROFILE"

FindCommand = Callable[[str], click.Command | None]


def long_name(option: click.Option) -> str:
    """Return an option's long name without dashes."""
    return next((text[2:] for text in option.opts if text.startswith("--")), option.opts[0].lstrip("-"))


def variable_of(command: str, name: str) -> str:
    """Return the variable of a command's option: FORGEPACK_COMMAND_OPTION."""
    return f"{PREFIX}{command}_{name}".upper().replace("-", "_")


def variables_of(command: str, option: click.Option) -> tuple[str, ...]:
    """Return the variables that an option reads, the first that is set wins; none where it reads none."""
    name = long_name(option)
    if settable(command, name).variable is None:
        return ()
    own = variable_of(command, name)
    return (own, PROFILE) if name == "profile" else (own,)


def with_variables(command: click.Command, name: str) -> click.Command:
    """Let each option of a command read the variables that it may be set by, and no others."""
    for param in command.params:
        if isinstance(param, click.Option):
            param.envvar = variables_of(name, param) or None
    return command


def with_program_variables(program: click.Command) -> None:
    """Let the options before a command's name read their variables, FORGEPACK_OPTION, where they may be set so."""
    for param in program.params:
        if isinstance(param, click.Option):
            name = long_name(param)
            param.envvar = f"{PREFIX}{name}".upper() if PROGRAM.get(name, LINE).variable is not None else None


def refuse_variables(commands: Iterable[str], find_command: FindCommand) -> None:
    """Raise UsageError for a variable that would set what only the command line may, or a value that it may not."""
    for name in ("config", "isolated"):
        if os.environ.get(f"{PREFIX}{name}".upper()):
            raise _only_line(f"{PREFIX}{name}".upper(), f"--{name}", "forgepack")
    for command in commands:
        for option in _options(find_command(command)):
            _refuse(command, option)


def _refuse(command: str, option: click.Option) -> None:
    name = long_name(option)
    allowed = settable(command, name).variable
    if allowed is None:
        if os.environ.get(variable := variable_of(command, name)) and name != "help":
            raise _only_line(variable, f"--{name}", f"forgepack {command}")
        return
    for variable in variables_of(command, option):
        text = os.environ.get(variable, "")
        if text and not allowed.hold(text):
            raise UsageError(
                f"a variable sets --{name} to a value that only the command line may give",
                where=variable,
                expected=allowed.shown,
                found=text[:80],
                hint=f"unset {variable}, and give --{name} to forgepack {command}",
            )


def _only_line(variable: str, option: str, command: str) -> UsageError:
    return UsageError(
        f"a variable sets {option}, which only the command line may set",
        where=variable,
        found=os.environ[variable][:80],
        hint=f"unset {variable}, and give {option} to {command}",
    )


def unknown_variables(commands: Iterable[str], find_command: FindCommand) -> list[tuple[str, str | None]]:
    """Return (name, closest known one) of each FORGEPACK_* variable that no option reads."""
    there = sorted(name for name in os.environ if name.startswith(PREFIX))
    if not there:
        return []
    known = {PROFILE, *(f"{PREFIX}{name}".upper() for name, one in PROGRAM.items() if one.variable is not None)}
    for name in commands:
        for option in _options(find_command(name)):
            known.update(variables_of(name, option))
    return [(name, closest(name, known)) for name in there if name not in known]


def _options(command: click.Command | None) -> Iterator[click.Option]:
    yield from (param for param in (command.params if command is not None else ()) if isinstance(param, click.Option))


def source_date(unset: int = 0) -> int:
    """Return SOURCE_DATE_EPOCH, seconds since 1970, or ``unset`` where it is not set.

    NumPy reads it as well, and can't be imported where it is not a number: every command refuses another text.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return unset
    if not text.strip():
        what = "SOURCE_DATE_EPOCH is empty"
        hint = "unset SOURCE_DATE_EPOCH for the fixed date, or set it to seconds since 1970"
        raise UsageError(what, where="SOURCE_DATE_EPOCH", expected="a natural number", found=repr(text), hint=hint)
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise UsageError(
            "SOURCE_DATE_EPOCH is not a number of seconds",
            where="SOURCE_DATE_EPOCH",
            expected="a natural number of at most 12 digits",
            found=repr(text)[:40],
            hint="set it to seconds since 1970, as `git log -1 --format=%ct` prints, or unset it",
        )
    return int(text)
