"""``forgepack attest``: a statement, outside the package, that a drafter was measured with a second target."""

from __future__ import annotations

import sys
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
from forgepack.cli.outputs import named_inputs
from forgepack.disk.outputs import write_output
from forgepack.disk.space import free_bytes
from forgepack.errors import EXIT_OK
from forgepack.escaping import escape_line
from forgepack.profile import load_profile
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import Sources, find_sources

if TYPE_CHECKING:
    from forgepack.release.attest.make import AttestResult

_PATH = click.Path(path_type=Path)


@click.command("attest")
@click.argument("drafter", type=_PATH)
@click.option("--target", type=_PATH, metavar="DIR", help="The second target's release root.")
@target_options
@click.option(
    "--evidence",
    type=_PATH,
    required=True,
    metavar="REPORT",
    help="What forgepack replay --workload --report wrote of this pair.",
)
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    show_default="DRAFTER.EXPORT.attestation.json, beside DRAFTER",
    help="Attestation to be written.",
)
@click.option(
    "--depth",
    type=click.Choice([depth.label for depth in Depth if depth >= Depth.HASH]),
    default=Depth.LINEAGE.label,
    show_default=True,
    help="How deep the pair is verified before it is attested.",
)
@click.option("--allow-links", is_flag=True, help="Follow symbolic links to files, as in a hub cache.")
@click.option("--dry-run", is_flag=True, help="Verify, say what would be written, write nothing.")
@profile_option
@force_option()
@json_option
@click.pass_context
def attest(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> int:
    """Attest that the package in DRAFTER was measured with another target than its own.

    The target must share head, tokenizer and mask row with the package's own, by content; the evidence must be of
    this drafter and this target, on a named workload. Otherwise the rules say why not, and nothing is written (exit
    1).

    The package is not touched. forgepack verify DRAFTER --target DIR --attestation FILE passes the pair from then on.
    The attestation repeats what the evidence showed; it decides nothing: forgepack gate does.
    """
    from forgepack.release.attest.files import AttestationPlace, attestation_bytes, open_attest_inputs
    from forgepack.release.attest.make import attest as make

    console, profile = console_of(ctx), load_profile(profile_name)
    sources = _sources(options)
    place = AttestationPlace(
        sources=sources, out=options["out"], inputs=named_inputs(ctx, "out"), force=options["force"]
    )
    place.check()
    inputs = open_attest_inputs(sources, options["evidence"], profile, Depth[options["depth"].upper()])
    result = make(inputs, progress=console.detail)
    if result.attestation is None:
        return _refuse(result, as_json=as_json)
    out, data = place.find(result), attestation_bytes(result)
    if not options["dry_run"]:
        write_output(out, data)
    _tell(result, out, data, dry_run=options["dry_run"], as_json=as_json)
    return EXIT_OK


def _sources(options: dict[str, Any]) -> Sources:
    parts = {part: options[f"target_{part}"] for part in ("model", "build", "export")}
    return find_sources(options["drafter"], options["target"], **parts, allow_links=options["allow_links"])


def _refuse(result: AttestResult, *, as_json: bool) -> int:
    """Show the rules that refuse the pair, as forgepack verify does."""
    from forgepack.render import render_report
    from forgepack.render.json_report import report_json

    if as_json:
        echo_json({"schema": "forgepack.attest-report/1", "attested": False, "verify": report_json(result.report)})
    else:
        sys.stdout.buffer.write(render_report(result.report, "text"))
        sys.stdout.buffer.flush()
        click.echo("not attested: nothing was written")
    return result.report.exit_code


def _tell(result: AttestResult, out: Path, data: bytes, *, dry_run: bool, as_json: bool) -> None:
    assert result.attestation is not None
    if as_json:
        free = free_bytes(out.parent)
        echo_json(
            {
                "schema": "forgepack.attest-report/1",
                "attested": True,
                "dry_run": dry_run,
                "out": str(out),
                "bytes": len(data),
                "disk": {"needed": len(data), "free": free},
                "attestation": result.attestation,
                "verify": verdict_json(result.report),
            }
        )
        return
    evidence, target = result.attestation["evidence"], result.attestation["target"]
    shown = evidence["drafter"]
    accepted = shown["acceptance"]
    sample = f"{evidence['traces']['sequences']} sequences, {accepted['blocks']} blocks"
    lines = [
        f"{out}: {result.attestation['drafter']['package']} with target {target['export']}",
        f"evidence: workload {evidence['workload']}, {sample}: {accepted['mean']:.3f} accepted drafts per block",
    ]
    if "agreement" in shown:
        lines.append(f"agreement with the reference: {shown['agreement']['mean']:.3f} of its blocks")
    warnings = result.report.failed("warning")
    lines += [f"warning: {check.id}: {check.violation} ({check.findings[0].where})" for check in warnings]
    lines.append(f"sha256 {result.attestation['sha256']}, verified at depth {result.report.depth.label}")
    lines += [f"{len(data):,} bytes; nothing was written"] if dry_run else []
    click.echo("\n".join(escape_line(line) for line in lines))
