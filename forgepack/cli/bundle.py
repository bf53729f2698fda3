"""``forgepack bundle``: a release folder from a target and a drafter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import (
    console_of,
    echo_json,
    force_option,
    json_option,
    profile_option,
    target_options,
    verdict_json,
)
from forgepack.cli.outputs import check_out, replaced_json
from forgepack.cli.resources import target_parts
from forgepack.cli.step_progress import StepProgress
from forgepack.disk.places import Replaced
from forgepack.disk.space import demand_space, free_bytes
from forgepack.escaping import escape
from forgepack.profile import Profile, load_profile
from forgepack.verify.findings.report import Depth

if TYPE_CHECKING:
    from forgepack.release.bundle.inventory import BundleInputs, Inventory
    from forgepack.release.bundle.make import BundleResult

_FOLDER = click.Path(path_type=Path)


@click.command("bundle")
@click.argument("drafter", type=_FOLDER)
@click.option("--target", type=_FOLDER, metavar="DIR", help="The target's release root: model/, coreai/, export/.")
@target_options
@click.option("--out", type=_FOLDER, required=True, metavar="DIR", help="Release folder to be written.")
@click.option("--export/--no-export", default=True, show_default=True, help="Take the quantized export along.")
@click.option("--documents", type=_FOLDER, metavar="DIR", help="Folder with documents that replace written ones.")
@click.option(
    "--upstream-id", metavar="OWNER/NAME", help="The checkpoint that the target comes from; default: the profile's."
)
@click.option("--upstream-revision", metavar="COMMIT", help="Its revision; default: the profile's.")
@click.option("--allow-links", is_flag=True, help="Copy what symbolic links to files lead to.")
@click.option(
    "--depth",
    type=click.Choice([depth.label for depth in Depth if depth >= Depth.HASH]),
    default=Depth.HASH.label,
    show_default=True,
    help="How deep the staged release is verified before it is published.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be written, write nothing.")
@profile_option
@force_option()
@json_option
@click.pass_context
def bundle(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Stage a release: the target and the drafter in DRAFTER in one folder, with documents and release.json.

    release.json is of schema 1, as Forge's release check demands it. Beside it are forgepack.json, which binds it
    to the pair, and SHA256SUMS. LICENSE is the target's; README.md, NOTICE, MODIFICATIONS.md and QWEN_SOURCE.json are
    written, unless --documents has them.

    Every file is hashed while it is copied; the staged release must pass its verification before it is published.
    The same inputs give the same bytes.
    """
    from forgepack.release.bundle.inventory import take_inventory

    console, profile = console_of(ctx), load_profile(profile_name)
    inputs = _inputs(options, profile)
    replaced = check_out(ctx, console)
    if options["dry_run"]:
        _show_plan(take_inventory(inputs), options["out"], replaced, as_json=as_json)
        return
    from forgepack.release.bundle.make import make_bundle

    with StepProgress(console) as progress:
        result = make_bundle(
            inputs,
            options["out"],
            profile=profile,
            force=options["force"],
            depth=Depth[options["depth"].upper()],
            listener=lambda now: progress.advance(now.step, now.done, now.total, now.path),
        )
    for path in result.left_behind:
        console.say(f"note: left out, not a file of a release's model: {path}")
    for check in result.report.failed("warning"):
        console.say(f"warning: {check.id}: {check.violation} ({check.findings[0].where})")
    if as_json:
        echo_json(result_json(result))
    else:
        click.echo("\n".join(result_lines(result)))


def _inputs(options: dict[str, Any], profile: Profile) -> BundleInputs:
    from forgepack.release.bundle.inputs import open_bundle_inputs

    names = ("documents", "export", "upstream_id", "upstream_revision", "allow_links")
    chosen = {name: options[name] for name in names}
    return open_bundle_inputs(options["drafter"], target_parts(options), profile, **chosen)


def _show_plan(inventory: Inventory, out: Path, replaced: Replaced | None, *, as_json: bool) -> None:
    from forgepack.release.bundle.make import disk_bytes

    free, needed = free_bytes(out.parent), disk_bytes(inventory)
    if as_json:
        files = [{"path": f.path, "component": f.component, "bytes": f.bytes} for f in inventory.files]
        left = list(inventory.left_behind)
        disk = {"needed": inventory.bytes, "free": free}
        plan = {"schema": "forgepack.bundle-plan/1", "dry_run": True, "files": files, "left_behind": left}
        echo_json({**plan, "disk": disk, "replaces": replaced_json(replaced)})
    else:
        click.echo("\n".join(f"{f.component:<8}  {f.bytes:>15,}  {escape(f.path)}" for f in inventory.files))
        size = f"{len(inventory.files)} files, {inventory.bytes:,} bytes to copy"
        click.echo(f"{size}, {free:,} free; nothing was written")
    demand_space(needed, free, out)


def result_json(result: BundleResult) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "schema": "forgepack.bundle-report/1",
        "out": str(result.root),
        "files": len(result.files),
        "bytes": result.bytes,
        "release_sha256": result.release_sha256,
        "left_behind": list(result.left_behind),
        "verify": verdict_json(result.report),
    }


def result_lines(result: BundleResult) -> list[str]:
    """Return the result as text."""
    verified = f"verified at depth {result.report.depth.label}"
    return [
        f"{escape(str(result.root))}: {len(result.files)} files, {result.bytes:,} bytes, {verified}",
        f"release.json sha256 {result.release_sha256}",
    ]
