"""``forgepack diff``: how two artifacts differ."""

from __future__ import annotations

from pathlib import Path

import click

from forgepack.cli.common import console_of, echo_json, json_option, offer
from forgepack.profile import load_profile, profile_names

_PATH = click.Path(path_type=Path)


@click.command("diff")
@click.argument("left", type=_PATH, metavar="A")
@click.argument("right", type=_PATH, metavar="B")
@click.option("--target", type=_PATH, metavar="DIR", help="Release root of the target that both drafters are for.")
@click.option(
    "--profile",
    "profile_name",
    metavar="NAME",
    shell_complete=offer(profile_names),
    help="Profile to compare two drafters by; default: the shipped one that A names.",
)
@json_option
@click.pass_context
def diff(
    ctx: click.Context, *, left: Path, right: Path, target: Path | None, profile_name: str | None, as_json: bool
) -> int:
    """Show how A and B differ: fields, files, tensors, and by how much.

    Packages, quantized drafters, sidecars, checkpoints, targets, bundles, or single files of any kind. Of two drafter
    packages it names the rules by which the verifier fails B, given what A's sidecar binds or B's own: with --target
    all of them, else those that need no target. Exit code 0 when A and B are equal, 1 when not.
    """
    from forgepack.release.diff.compare import diff_json, diff_paths
    from forgepack.render.diff_text import diff_lines

    profile = None if profile_name is None else load_profile(profile_name)
    found = diff_paths(left, right, profile=profile, target=target)
    if as_json:
        echo_json(diff_json(found))
    else:
        click.echo("\n".join(diff_lines(found, verbose=console_of(ctx).verbose)))
    return found.exit_code
