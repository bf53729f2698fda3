"""``forgepack verify``: whether a package and a target belong together."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from forgepack.cli.common import profile_option, talk_of, target_options
from forgepack.errors import OutputError, UsageError
from forgepack.profile import load_profile
from forgepack.render import FORMATS, render_report
from forgepack.verify.engine import verify as run_rules
from forgepack.verify.report import Depth, Report
from forgepack.verify.sources import Sources, find_sources
from forgepack.verify.subject import Pair

FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("drafter", type=FOLDER)
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
    help="At depth run: about this many blocks of the traces, not all.",
)
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--report", "reports", multiple=True, metavar="FORMAT=FILE", help="Also write the report to FILE.")
@click.option("--strict", is_flag=True, help="Let warnings refuse, too.")
@click.option("--allow-links", is_flag=True, help="Follow symbolic links to files, as in a hub cache.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001, max=86400),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time allowed for each reading or run of an asset.",
)
@click.pass_context
def verify(  # noqa: PLR0913  (one parameter an option)
    ctx: click.Context,
    *,
    drafter: Path,
    target: Path | None,
    target_model: Path | None,
    target_build: Path | None,
    target_export: Path | None,
    profile_name: str,
    quant: Path | None,
    checkpoint: Path | None,
    depth: str,
    traces: Path | None,
    blocks: int | None,
    format_name: str,
    reports: tuple[str, ...],
    strict: bool,
    allow_links: bool,
    timeout: float,
) -> int:
    """Verify that the package in DRAFTER and a target belong together.

    Every fault of the content is a finding (exit 1), all of them are told at once. Nothing is written into what is
    read, nothing is downloaded.
    """
    talk = talk_of(ctx)
    profile = load_profile(profile_name)
    sources = find_sources(
        drafter,
        target,
        model=target_model,
        build=target_build,
        export=target_export,
        quant=quant,
        checkpoint=checkpoint,
        traces=traces,
        allow_links=allow_links,
    )
    outputs = [_parse_output(text, sources) for text in reports]
    pair = Pair(sources, profile, Depth[depth.upper()], seconds=timeout, blocks=blocks)
    report = run_rules(pair, strict=strict, progress=talk.detail)
    for name, path in outputs:
        _write(path, render_report(report, name))
    sys.stdout.buffer.write(render_report(report, format_name, verbose=talk.verbose))
    sys.stdout.buffer.flush()
    return _exit_code(report)


def _exit_code(report: Report) -> int:
    return report.exit_code


def _parse_output(text: str, sources: Sources) -> tuple[str, Path]:
    """Split FORMAT=FILE; refuse an unknown format and a file inside what is verified."""
    name, separator, file = text.partition("=")
    if not separator or name not in FORMATS or not file:
        raise UsageError("--report takes FORMAT=FILE", found=text, hint=f"formats: {', '.join(FORMATS)}")
    path = Path(os.path.abspath(file))  # noqa: PTH100  (links stay as they are named)
    for role, root in sources.roots().items():
        if path.is_relative_to(root):
            raise UsageError("a report is never written into what is verified", where=file, found=f"inside {role}")
    return name, path


def _write(path: Path, data: bytes) -> None:
    """Write a report whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as err:
        raise OutputError("the report could not be written", where=str(path), found=err.strerror) from err
