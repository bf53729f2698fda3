"""``forgepack inspect``: what a file or folder is."""

from __future__ import annotations

from pathlib import Path

import click

from forgepack.cli.common import echo_json, json_option
from forgepack.profile import load_profile


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Also hash files over 1 GiB and read the programs of assets.")
@click.option("--profile", "profile_name", metavar="NAME", help="A profile to know beside those that ship.")
@json_option
def inspect(*, path: Path, deep: bool, profile_name: str | None, as_json: bool) -> int:
    """Identify PATH, any file or folder, of this tool or not: its kind, digests and faults.

    Checkpoint, QUANT, drafter package, asset, target and its parts, traces, sidecar, lock, reports, Core ML packages,
    safetensors and NumPy files, Git LFS pointers. Exit code 1 when a fault is found.
    """
    from forgepack.release.inspect.inspection import inspect_path, inspection_json
    from forgepack.render.inspect_text import inspect_lines

    found = inspect_path(path, deep=deep, more=None if profile_name is None else load_profile(profile_name))
    if as_json:
        echo_json(inspection_json(found))
    else:
        click.echo("\n".join(inspect_lines(found)))
    return found.exit_code
