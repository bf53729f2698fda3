"""``forgepack diff``: how two artifacts differ."""

from __future__ import annotations

from pathlib import Path

import click

from forgepack.cli.common import echo_json, json_option, talk_of

_PATH = click.Path(path_type=Path)


@click.command("diff")
@click.argument("left", type=_PATH, metavar="A")
@click.argument("right", type=_PATH, metavar="B")
@json_option
@click.pass_context
def diff(ctx: click.Context, *, left: Path, right: Path, as_json: bool) -> int:
    """Tell how A and B differ: fields, files, tensors, by how much, and which rules would refuse B in A's place.

    Packages, quantized drafters, sidecars, checkpoints, targets, bundles, or single files of any kind. Exit code 0
    when they are equal, 1 when not.
    """
    from forgepack.release.diff.compare import diff_json, diff_paths
    from forgepack.render.diff_text import diff_lines

    found = diff_paths(left, right)
    if as_json:
        echo_json(diff_json(found))
    else:
        click.echo("\n".join(diff_lines(found, verbose=talk_of(ctx).verbose)))
    return found.exit_code
