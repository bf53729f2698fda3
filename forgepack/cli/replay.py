"""``forgepack replay``: acceptance of drafters on recorded sequences, and how often their drafts agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.canonical import dump_canonical
from forgepack.cli.common import (
    NumberRange,
    console_of,
    echo_json,
    force_option,
    json_option,
    profile_option,
    target_options,
)
from forgepack.cli.outputs import check_out_file
from forgepack.cli.resources import target_parts, threads_option
from forgepack.disk.outputs import clear_output, write_output
from forgepack.disk.places import refuse_one_place
from forgepack.profile import load_profile

if TYPE_CHECKING:
    from forgepack.release.replay.request import ReplayRequest

_FOLDER = click.Path(path_type=Path)


@click.command("replay")
@click.argument("drafters", type=_FOLDER, nargs=-1, required=True, metavar="DRAFTER...")
@click.option("--against", type=_FOLDER, metavar="DRAFTER", help="The reference; by default the first DRAFTER.")
@click.option("--traces", type=_FOLDER, required=True, metavar="FILE", help="Recorded sequences to walk.")
@click.option("--workload", metavar="NAME", help="Name of the workload that the traces are; a gate needs it.")
@click.option("--target", type=_FOLDER, metavar="DIR", help="The target's release root.")
@target_options
@click.option("--checkpoint", type=_FOLDER, metavar="DIR", help="The checkpoint that a QUANT was made of.")
@click.option(
    "--mask-scale",
    type=NumberRange(0, 1, min_open=True),
    metavar="S",
    help="Another mask scale, for every DRAFTER but packages.",
)
@click.option("--plot", type=_FOLDER, metavar="FILE", help="Also draw the result as an SVG picture.")
@click.option("--report", type=_FOLDER, metavar="FILE", help="Also write the JSON report to FILE.")
@threads_option
@profile_option
@force_option()
@json_option
@click.pass_context
def replay(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Replay greedy speculative decoding on recorded sequences with each DRAFTER.

    A DRAFTER is an unquantized checkpoint, a QUANT folder or a drafter package, which is read back from its constants
    and brings its own head. The target's recorded tokens take the target's place, so acceptance is exact.

    Agreement is the share of blocks, on the reference's schedule, whose drafts all equal the reference's: it sees
    faults that acceptance is blind to.
    """
    console, profile = console_of(ctx), load_profile(profile_name)
    request = _request(options)
    _check(ctx, request)
    from forgepack.release.replay.request import run_replay

    report = run_replay(request, profile, say=console.say)
    if options["report"] is not None:
        write_output(options["report"], dump_canonical(report))
    if options["plot"] is not None:
        from forgepack.render.replay_plot import replay_svg

        write_output(options["plot"], replay_svg(report))
    if as_json:
        echo_json(report)
    else:
        from forgepack.render.replay_text import replay_lines

        click.echo("\n".join(replay_lines(report, sequences=console.verbose)))


def _request(options: dict[str, Any]) -> ReplayRequest:
    from forgepack.release.replay.request import ReplayRequest

    names = ("drafters", "traces", "against", "workload", "checkpoint", "mask_scale", "threads")
    return ReplayRequest(target=target_parts(options), **{name: options[name] for name in names})


def _check(ctx: click.Context, request: ReplayRequest) -> None:
    """Refuse at once what would fail after the work: missing traces, blank names, outputs in the way.

    An older report is removed: a run that does not end must not leave it as if it were its own.
    """
    from forgepack.release.replay.request import check_request

    plot, report = ctx.params["plot"], ctx.params["report"]
    check_out_file(ctx, "plot", "report")
    refuse_one_place(plot, report)
    for out in (plot, report):
        clear_output(out)
    check_request(request)
