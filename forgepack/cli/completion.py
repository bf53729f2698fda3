"""``forgepack completion``: a shell's completion script."""

from __future__ import annotations

import click

from forgepack.cli.common import echo_text
from forgepack.errors import InternalError

SHELLS = ("bash", "zsh", "fish")


EPILOG = """\b
In the shell's start-up file:
  bash   eval "$(forgepack completion bash)"
  zsh    eval "$(forgepack completion zsh)"
  fish   forgepack completion fish | source
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the completion script of SHELL, for its start-up file."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise InternalError("click knows no completion for a shell that is offered", found=shell)
    root = ctx.find_root()
    complete = found(root.command, {}, "forgepack", "_FORGEPACK_COMPLETE")
    # The template alone: click's bash class starts a bash to look at its version, which is not needed to print.
    echo_text(complete.source_template % complete.source_vars())
