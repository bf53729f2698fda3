"""What to do about an error: every message ends with the next command, also where its error names none."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from forgepack.closest import did_you_mean
from forgepack.errors import (
    ForgepackError,
    HubError,
    InputError,
    InternalError,
    OutputError,
    PlatformError,
    UnreadableError,
    UsageError,
)

# What a command can do without the hub, where HF_HUB_OFFLINE forbids to ask it.
_WITHOUT_HUB = {
    "fetch": "add --offline to compare what is there with its lock",
    "verify": "download the release, and name it by --bundle DIR in place of --hub",
    "build": "set offline = true below [fetch] to take a checkpoint that is there",
    "doctor": "drop --online",
}
_LONGEST_NAME = 200
_NOT_ONE_OF = re.compile(r"'(.*)' is not one of ", re.DOTALL)


def next_step(err: ForgepackError, command: str | None) -> str:
    """Return the error's own hint, else what helps with errors of its kind."""
    if (better := _better(err, command)) or err.hint:
        return better or str(err.hint)
    if isinstance(err, UnreadableError):
        return "make it readable for this user, or name another"
    if isinstance(err, InputError):
        there = _existing(err.where)
        if there is not None and command != "inspect":
            return f"forgepack inspect {shlex.quote(there)} says what is there"
    elif isinstance(err, OutputError):
        return "make room there or name another place, then run the same command again"
    elif isinstance(err, HubError):
        return "run the same command again: it resumes"
    elif isinstance(err, PlatformError):
        return "forgepack doctor says what is missing"
    elif isinstance(err, InternalError):
        return "report this with the command line and the text above"
    return f"{help_of(command)} shows options and examples"


def _better(err: ForgepackError, command: str | None) -> str | None:
    """Return what helps and the library can't know: the command's other ways, or what the system's words mean."""
    if err.code == "hub-offline" and command in _WITHOUT_HUB:
        return f"{err.hint}, or {_WITHOUT_HUB[command]}"
    if os.strerror(errno.ENAMETOOLONG) in (err.found or ""):
        return f"take a name of at most {_LONGEST_NAME} bytes: file systems end at 255, and work files need some more"
    return None


def help_of(command: str | None) -> str:
    """Return the command line that shows a command's help."""
    return "forgepack --help" if command is None else f"forgepack {command} --help"


def _existing(where: str | None) -> str | None:
    """Return the path that an error speaks of, or the closest folder above it that is there."""
    for text in _paths(where or ""):
        path = Path(text)
        for place in (path, *path.parents):
            if place != Path() and os.path.lexists(place):
                return str(place)
    return None


def _paths(where: str) -> Iterator[str]:
    """Yield ``where`` and what stands before each ``: `` in it: a JSON path or a tensor may follow a path."""
    yield where
    for match in reversed(list(re.finditer(": ", where))):
        yield where[: match.start()]


def usage_error(err: click.ClickException) -> UsageError:
    """Return a fault that click found in the command line, in this tool's form, with the closest known word."""
    ctx = err.ctx if isinstance(err, click.UsageError) else None
    name = ctx.command.name if ctx is not None and ctx.parent is not None else None
    look = f"{help_of(name)} shows options and examples"
    if isinstance(err, click.NoSuchOption):
        known = [text for param in ctx.command.params for text in param.opts] if ctx is not None else []
        hint = did_you_mean(err.option_name, known, otherwise=look)
        return UsageError("no such option", found=err.option_name, hint=hint)
    if isinstance(err, click.MissingParameter) and err.param is not None and ctx is not None:
        wanted = err.param.make_metavar(ctx) if isinstance(err.param, click.Argument) else err.param.opts[0]
        kind = f"the {err.param.param_type_name} {wanted} is missing"
        return UsageError(kind, expected=" ".join(ctx.get_usage().split()[1:]), hint=look)
    choice = _NOT_ONE_OF.match(err.message)
    if choice and isinstance(err, click.BadParameter) and err.param is not None:
        known = [str(one) for one in getattr(err.param.type, "choices", ())]
        what = f"{err.param.opts[0] if isinstance(err.param, click.Option) else err.param.name} takes another value"
        hint = did_you_mean(choice[1], known, otherwise=f"{help_of(name)} says what each means")
        return UsageError(what, expected=" or ".join(known), found=choice[1], hint=hint)
    return UsageError(err.format_message().rstrip("."), hint=look)
