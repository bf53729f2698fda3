"""``forgepack quantize``: LUT4 by GPTQ and INT8 by rounding, from recorded traces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import (
    Console,
    NumberRange,
    console_of,
    echo_json,
    force_option,
    json_option,
    profile_option,
    target_options,
)
from forgepack.cli.outputs import check_out, replaced_json
from forgepack.cli.resources import target_parts, threads_option
from forgepack.disk.places import Replaced
from forgepack.disk.space import demand_space
from forgepack.escaping import escape
from forgepack.profile import Profile, load_profile

if TYPE_CHECKING:
    from forgepack.quantize.recipe import Options
    from forgepack.quantize.run import QuantizeResult
    from forgepack.quantize.sources import Sources

_FOLDER = click.Path(path_type=Path)
_SCALE = NumberRange(0, 1, min_open=True)


@click.command("quantize")
@click.argument("checkpoint", type=_FOLDER, metavar="CHECKPOINT")
@click.option("--traces", type=_FOLDER, required=True, metavar="FILE", help="Recorded sequences that calibrate.")
@click.option("--held-out", type=_FOLDER, metavar="FILE", help="Held-out sequences, for evaluation only.")
@click.option("--target", type=_FOLDER, metavar="DIR", help="The target's release root.")
@target_options
@click.option("--out", type=_FOLDER, required=True, metavar="QUANT", help="Folder to write.")
@click.option(
    "--method",
    type=click.Choice(["gptq", "rtn"]),
    default="gptq",
    show_default=True,
    help="rtn rounds every weight to its nearest code.",
)
@click.option("--mask-scale", type=_SCALE, metavar="S", help="Mask scale of the calibration; default: the profile's.")
@click.option("--deploy-mask-scale", type=_SCALE, metavar="S", help="Mask scale to deploy with; default: the same.")
@threads_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, write nothing.")
@profile_option
@force_option()
@json_option
@click.pass_context
def quantize(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Quantize a checkpoint into the folder QUANT: drafter_quant.safetensors and report.json.

    The blocks that the traces record are walked layer by layer, so no step holds the whole model in memory; each
    matrix is calibrated on the rows that feed it and evaluated on rows that it never saw (--held-out, else every
    sixth sequence). Traces of this project say which drafter and target they belong to and are refused with others;
    traces without identity are taken and recorded as unbound.

    A run that was killed goes on from its last finished matrix when the same command runs again. The result does
    not depend on --threads.
    """
    console, profile = console_of(ctx), load_profile(profile_name)
    replaced = check_out(ctx, console)
    sources = _open_sources(options, profile)
    for traces in filter(None, (sources.traces, sources.held_out)):
        if traces.identity is None:
            console.say(f"note: {traces.path} carries no identity: taken as unbound")
    if options["dry_run"]:
        _show_plan(sources, options, profile, replaced=replaced, as_json=as_json)
        return
    result = _run(sources, options, profile, console)
    if as_json:
        echo_json(result.report)
    else:
        click.echo("\n".join(report_lines(result)))


def _open_sources(options: dict[str, Any], profile: Profile) -> Sources:
    from forgepack.quantize.sources import SourcePaths, open_sources

    paths = SourcePaths(
        checkpoint=options["checkpoint"],
        target=target_parts(options),
        traces=options["traces"],
        held_out=options["held_out"],
    )
    return open_sources(paths, profile, hashed=not options["dry_run"])


def _run(sources: Sources, options: dict[str, Any], profile: Profile, console: Console) -> QuantizeResult:
    from forgepack.cli.quantize_progress import listening
    from forgepack.quantize.run import quantize as run

    with listening(console, clock=time.monotonic) as progress:
        return run(sources, options["out"], profile=profile, options=_chosen(options), progress=progress)


def _chosen(options: dict[str, Any]) -> Options:
    from forgepack.quantize.recipe import Options

    return Options(
        method=options["method"],
        mask_scale=options["mask_scale"],
        deployed_mask_scale=options["deploy_mask_scale"],
        threads=options["threads"],
        force=options["force"],
    )


def _show_plan(
    sources: Sources, options: dict[str, Any], profile: Profile, *, replaced: Replaced | None, as_json: bool
) -> None:
    from forgepack.cli.quantize_plan import plan_json, plan_lines
    from forgepack.quantize.plan import plan

    out = options["out"]
    planned = plan(sources, out, profile, _chosen(options))
    if as_json:
        echo_json({**plan_json(planned), "replaces": replaced_json(replaced)})
    else:
        click.echo("\n".join(plan_lines(planned)))
    demand_space(planned.disk, planned.disk_free, out)


def report_lines(result: QuantizeResult) -> list[str]:
    """Return the outcome as text: mean relative errors beside plain rounding, and what needs attention."""
    report = result.report
    lines = []
    for form, label in (("lut4", "LUT4"), ("int8", "INT8")):
        total = report["totals"][form]
        for kind, rows in (("calibration", "calibration"), ("held_out", "held-out")):
            error = total[kind]
            lines.append(
                f"{label}  {total['matrices']:>3} matrices  {rows:<11}  relative output error"
                f" {error['quantized']:.4f}  (plain rounding {error['rtn']:.4f})"
            )
    lines.extend(_sequences(report["inputs"]))
    for name, matrix in sorted(report["matrices"].items()):
        lines.extend(_remarks(name, matrix, report["recipe"]))
    lines.append(f"{escape(str(result.root))}: {report['output']['file']}, sha256 {report['output']['sha256']}")
    return lines


def _sequences(inputs: dict[str, Any]) -> Iterator[str]:
    from forgepack.cli.quantize_plan import ignored_line, overlap_line

    yield overlap_line(inputs["held_out"]["overlap"])
    sides = (inputs["calibration"], inputs["held_out"])
    cycles, rows = (sum(side[key] for side in sides) for key in ("ignored_cycles", "rows_beyond_tokens"))
    if cycles or rows:
        yield ignored_line(cycles, rows)


def _remarks(name: str, matrix: dict[str, Any], recipe: dict[str, Any]) -> Iterator[str]:
    for part, counts in matrix.get("folds", {}).items():
        for kind, count in counts.items():
            if count:
                yield f"note: {name}: {count} values of its {part} {kind} in float16 once folded into the package"
    if recipe["gptq"] is not None and matrix.get("damping", recipe["gptq"]["damping"]) != recipe["gptq"]["damping"]:
        yield f"note: {name}: the Hessian needed damping {matrix['damping']:g}"
