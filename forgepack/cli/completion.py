"""``forgepack completion``: a shell's completion script."""

from __future__ import annotations

import click

from forgepack.cli.common import echo_text
from forgepack.errors import InternalError

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the completion script of SHELL (bash, zsh or fish), for its start-up file.

    Commands, options, choices, rules, schemas, profiles and files are completed.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise InternalError("click knows no completion for a shell that is offered", found=shell)
    root = ctx.find_root()
    complete = found(root.command, {}, "forgepack", "_FORGEPACK_COMPLETE")
    # The template alone: click's bash class starts a bash to look at its version, which is not needed to print.
    echo_text(complete.source_template % complete.source_vars())
