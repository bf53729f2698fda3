"""``forgepack verify``: whether a package and a target belong together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from forgepack.cli.common import Console, NumberRange, console_of, force_option, profile_option, target_options
from forgepack.cli.origins import chosen_options
from forgepack.cli.outputs import named_inputs
from forgepack.cli.reports import NamedReport, open_reports
from forgepack.cli.verify_policy import policy_options, read_accepting
from forgepack.disk.outputs import write_output
from forgepack.errors import UsageError
from forgepack.profile import Profile, load_profile
from forgepack.release.verification.run import Accepting, Judging, verify_sources
from forgepack.render import FORMATS, render_report
from forgepack.verify.bundle import find_bundle
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.sources import Sources, find_sources

FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("drafter", type=FOLDER, required=False)
@click.option("--bundle", type=FOLDER, metavar="DIR", help="A whole release in one folder, in place of DRAFTER.")
@click.option("--hub", metavar="REPO@COMMIT", help="A published release, without its weights, in place of DRAFTER.")
@click.option("--plain", is_flag=True, help="With --bundle or --hub: the target without its drafter, a diagnostic.")
@click.option("--target", type=FOLDER, metavar="DIR", help="The target's release root: model/, coreai/, export/.")
@target_options
@profile_option
@click.option("--quant", type=FOLDER, metavar="DIR", help="The quantized drafter that the package was made from.")
@click.option("--checkpoint", type=FOLDER, metavar="DIR", help="The checkpoint that the drafter comes from.")
@click.option(
    "--depth",
    type=click.Choice([depth.label for depth in Depth]),
    default=Depth.LINEAGE.label,
    show_default=True,
    help="How deep to look: headers, all bytes, every constant and its source, or both entries run.",
)
@click.option("--traces", type=FOLDER, metavar="FILE", help="At depth run: recorded sequences to run the package on.")
@click.option(
    "--blocks",
    type=click.IntRange(min=1),
    metavar="N",
    help="At depth run: about this many blocks, not all.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option("--report", "reports", multiple=True, metavar="FORMAT=FILE", help="Also write the report to FILE.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--whole", is_flag=True, help="Refuse --select: a gate wants a verdict on the whole.")
@force_option(help="Replace any regular file at --report, not only an older report of its form.")
@policy_options
@click.option("--allow-links", is_flag=True, help="Follow symbolic links to files, as in a hub cache.")
@click.option(
    "--timeout",
    type=NumberRange(min=0.001, max=86400),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time allowed for each reading or run of an asset.",
)
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    *,
    profile_name: str,
    format_name: str,
    reports: tuple[str, ...],
    **options: Any,
) -> int:
    """Verify that the package in DRAFTER and a target belong together, or a whole release.

    Every fault of the content is a finding (exit 1), and all are reported at once. Nothing is written into what is
    read. Only --hub asks the network: for the hub's own digests at that commit, small files, and headers.

    A partial download of a release is understood: its export may be missing as a whole, its drafter with --plain.

    What is accepted stays visible in every report. Waivers, baselines, --ignore and --exit-zero never touch the rules
    that prove the pair and its bytes: forgepack explain RULE says which those are.
    """
    console = console_of(ctx)
    inputs = named_inputs(ctx)
    outputs = open_reports(reports, force=options["force"], inputs=inputs)
    profile = load_profile(profile_name)
    _check_subject(ctx, options)
    if options.pop("whole") and options["select"]:
        what = "--whole asks for a verdict on the whole, and --select leaves rules out"
        raise UsageError(what, found=f"--select {','.join(options['select'])}", hint="leave one of them out")
    accepting = read_accepting(options, console)
    if options["hub"] is not None:
        from forgepack.cli.verify_hub import verify_hub

        report = verify_hub(profile, options, depth_given=_given(ctx, "depth"), accepting=accepting, console=console)
    else:
        report = _verify_folders(profile, options, outputs, accepting, console)
    report = replace(report, options=chosen_options(ctx))
    for one in outputs:
        write_output(one.path, render_report(report, one.form))
    sys.stdout.buffer.write(render_report(report, format_name, verbose=console.verbose))
    sys.stdout.buffer.flush()
    return report.exit_code


def _verify_folders(
    profile: Profile, options: dict[str, Any], outputs: Sequence[NamedReport], accepting: Accepting, console: Console
) -> Report:
    sources = _find_sources(options)
    for one in outputs:  # a part of the target may be outside its root
        one.check(force=options["force"], inputs=sources.roots())
    how = Judging(
        profile=profile,
        accepting=accepting,
        depth=Depth[options["depth"].upper()],
        strict=options["strict"],
        seconds=options["timeout"],
        blocks=options["blocks"],
    )
    return verify_sources(sources, how, progress=console.detail)


def _given(ctx: click.Context, name: str) -> bool:
    """Whether an option stands on the command line or in the environment."""
    source = click.core.ParameterSource
    return ctx.get_parameter_source(name) in (source.COMMANDLINE, source.ENVIRONMENT)


def _check_subject(ctx: click.Context, options: dict[str, Any]) -> None:
    """Raise UsageError unless exactly one thing is named, with options that fit it."""
    named = [name for name in ("drafter", "bundle", "hub") if options[name] is not None]
    shown = {"drafter": "DRAFTER", "bundle": "--bundle", "hub": "--hub"}
    if len(named) != 1:
        found = " and ".join(shown[name] for name in named) or "nothing"
        raise UsageError("name one thing to verify", expected="DRAFTER, --bundle or --hub", found=found)
    if named != ["drafter"]:
        names = ("target", "target_model", "target_build", "target_export")
        parts = [name for name in names if options[name] is not None and _given(ctx, name)]
        if parts:
            found = f"--{parts[0].replace('_', '-')}"
            raise UsageError("a release holds its own target", found=found, hint="leave the option out")
    elif options["plain"]:
        hint = "add --bundle DIR or drop --plain"
        raise UsageError("--plain leaves the drafter of a release out", found="DRAFTER", hint=hint)


def _find_sources(options: dict[str, Any]) -> Sources:
    shared = {key: options[key] for key in ("quant", "checkpoint", "traces", "allow_links")}
    if options["bundle"] is not None:
        return find_bundle(options["bundle"], plain=options["plain"], **shared)
    parts = {part: options[f"target_{part}"] for part in ("model", "build", "export")}
    return find_sources(options["drafter"], options["target"], **parts, **shared)
