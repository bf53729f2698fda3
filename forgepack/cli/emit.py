"""``forgepack emit``: the Core AI package and its sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import (
    Console,
    console_of,
    echo_json,
    force_option,
    json_option,
    profile_option,
    target_options,
)
from forgepack.cli.outputs import check_out, replaced_json
from forgepack.cli.resources import find_target
from forgepack.cli.variables import source_date
from forgepack.disk.places import Replaced
from forgepack.disk.space import demand_space, free_bytes
from forgepack.profile import Profile, load_profile

if TYPE_CHECKING:
    from forgepack.emit.inputs import EmitInputs
    from forgepack.emit.package import EmitResult, Plan, Progress

_FOLDER = click.Path(path_type=Path)


@click.command("emit")
@click.argument("quant", type=_FOLDER)
@click.option("--checkpoint", type=_FOLDER, required=True, metavar="DIR", help="The checkpoint that was quantized.")
@click.option("--target", type=_FOLDER, metavar="DIR", help="The target's release root: model/, coreai/, export/.")
@target_options
@click.option("--out", type=_FOLDER, required=True, metavar="DIR", help="Folder to be written.")
@profile_option
@force_option()
@click.option("--allow-links", is_flag=True, help="Follow symbolic links to files, as in a hub cache.")
@click.option("--dry-run", is_flag=True, help="Check the inputs, say what would be written, write nothing.")
@json_option
@click.pass_context
def emit(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Emit the drafter package of QUANT: asset, sidecar, codebooks, config, licences.

    The rules of forgepack verify check the inputs first, by their headers. Then every input is hashed and must belong
    to the others: the quantization to the checkpoint, row by row, and to the target's head, the target's own head
    package to its export. The package is written beside --out and moved there whole; the same inputs give the same
    bytes.

    SOURCE_DATE_EPOCH sets the asset's creation date, which is fixed otherwise.
    """
    console = console_of(ctx)
    profile = load_profile(profile_name)
    replaced = check_out(ctx, console)
    inputs = _open_inputs(console, profile, options)
    if options["dry_run"]:
        _show_plan(console, profile, inputs, out=options["out"], replaced=replaced, as_json=as_json)
        return
    from forgepack.coreai_backend.asset_writer import FIXED_DATE
    from forgepack.emit.package import emit_package

    with _listening(console) as report:
        result = emit_package(
            inputs,
            options["out"],
            profile=profile,
            force=options["force"],
            created=source_date(FIXED_DATE),
            report=report,
        )
    for line in result.warnings:
        console.say(f"warning: {line}")
    for role, lost in result.narrowed.items():
        console.say(f"note: {role}: {lost.changed} values too small for float16 were rounded, {lost.zeroed} became 0")
    if as_json:
        echo_json(result_json(result))
    else:
        click.echo("\n".join(result_lines(result)))


def _open_inputs(console: Console, profile: Profile, options: dict[str, Any]) -> EmitInputs:
    """Check and read the inputs; what is only warned of is said."""
    from forgepack.verify.emission import InputPaths, open_inputs, warnings_of

    paths = InputPaths(
        quant=options["quant"],
        checkpoint=options["checkpoint"],
        target=find_target(options),
        root=options["target"],
        allow_links=options["allow_links"],
    )
    inputs, report = open_inputs(paths, options["out"], profile)
    for line in warnings_of(report):
        console.say(line)
    return inputs


@contextmanager
def _listening(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Yield a listener: a live bar that names the step on a terminal, one plain line a step elsewhere."""
    if not console.live:
        last = ""

        def say(progress: Progress) -> None:
            nonlocal last
            if progress.step != last:
                last = progress.step
                console.say(f"{progress.step} ...")

        yield say
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, description=progress.step, completed=progress.done, total=progress.total)

        yield show


def _show_plan(
    console: Console, profile: Profile, inputs: EmitInputs, *, out: Path, replaced: Replaced | None, as_json: bool
) -> None:
    from forgepack.emit.inputs import identify
    from forgepack.emit.package import plan_package

    console.say("check inputs ...")
    for line in identify(inputs, profile).warnings:
        console.say(f"warning: {line}")
    plan = plan_package(profile)
    free = free_bytes(out.parent)
    if as_json:
        echo_json(
            {
                "out": str(out),
                "files": list(plan.files),
                "constants": plan.constants,
                "payload_bytes": plan.payload_bytes,
                "disk_bytes": plan.disk_bytes,
                "free_bytes": free,
                "replaces": replaced_json(replaced),
            }
        )
    else:
        click.echo("\n".join(plan_lines(plan, out, free)))
    demand_space(plan.disk_bytes, free, out)


def plan_lines(plan: Plan, out: Path, free: int) -> list[str]:
    """Return what would be written, as text."""
    return [
        f"would write {out}:",
        *(f"  {name}" for name in plan.files),
        f"{plan.constants} constants, {plan.payload_bytes:,} bytes",
        f"disk: {plan.disk_bytes:,} bytes while it runs, {free:,} free",
        "dry run: nothing was written",
    ]


def result_json(result: EmitResult) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "out": str(result.root),
        "asset": str(result.asset),
        "bytes": result.asset_bytes,
        "mlirb_sha256": result.program_sha256,
        "sidecar": str(result.sidecar_file),
        "narrowed": {
            role: {"changed": lost.changed, "zeroed": lost.zeroed} for role, lost in result.narrowed.items()
        },
    }


def result_lines(result: EmitResult) -> list[str]:
    """Return the result as text."""
    return [
        f"{result.asset}  {result.asset_bytes:,} bytes",
        f"main.mlirb sha256 {result.program_sha256}",
        f"sidecar {result.sidecar_file}",
    ]
