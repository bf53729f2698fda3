"""Outputs of commands: checked before any work, with every path that the command line names as an input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from forgepack.cli.common import Console
from forgepack.disk.places import Replaced, check_file, check_folder


def named_inputs(ctx: click.Context, *outputs: str) -> dict[str, Path | None]:
    """Return role -> path of everything that a command reads, by its parameters; ``outputs`` are its own."""
    found: dict[str, Path | None] = {}
    for param in ctx.command.params:
        if param.name is None or param.name in outputs:
            continue
        role = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(ctx)
        for number, path in enumerate(_paths(ctx.params.get(param.name)), 1):
            found[role if number == 1 else f"{role} ({number})"] = path
    profile = ctx.params.get("profile_name")
    if isinstance(profile, str) and profile.endswith(".json"):
        found["--profile"] = Path(profile)
    return found


def _paths(value: object) -> Iterator[Path]:
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, Path):
            yield one


def check_out(ctx: click.Context, console: Console, *, name: str = "out") -> Replaced | None:
    """Refuse a folder that may not be written, and say what it replaces; the same in a dry run."""
    inputs = named_inputs(ctx, name)
    replaced = check_folder(ctx.params[name], force=ctx.params["force"], inputs=inputs, exact=True)
    if replaced is not None:
        console.say(f"note: {replaced.text}")
    return replaced


def check_out_file(
    ctx: click.Context, *names: str, ours: Callable[[Path], bool] = lambda _: False, what: str = "output"
) -> None:
    """Refuse files that may not be written; ``names`` are the parameters that name them."""
    inputs = named_inputs(ctx, *names)
    for path in (ctx.params[name] for name in names):
        if path is not None:
            check_file(path, force=ctx.params["force"], inputs=inputs, ours=ours, what=what)


def replaced_json(replaced: Replaced | None) -> dict[str, object] | None:
    """Return what a dry run says of the folder that would be replaced, null where there is none."""
    if replaced is None:
        return None
    return {
        "path": str(replaced.path),
        "what": replaced.what,
        "files": list(replaced.files),
        "dropped": list(replaced.dropped),
    }
