"""``forgepack gate``: whether a replay's report meets a release rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.canonical import dump_canonical
from forgepack.cli.common import echo_json, force_option, json_option, profile_option
from forgepack.cli.outputs import check_out_file
from forgepack.disk.outputs import clear_output, write_output
from forgepack.errors import UsageError
from forgepack.profile import Profile, load_profile

if TYPE_CHECKING:
    from forgepack.release.replay.gate.judge import GateResult

_FILE = click.Path(path_type=Path)


@click.command("gate")
@click.argument("report", type=_FILE)
@click.option("--policy", type=_FILE, metavar="FILE", help="The release rule, JSON or TOML.")
@click.option("--drafter", type=_FILE, metavar="DIR", help="The drafter that the report must be about.")
@click.option("--baseline", type=_FILE, metavar="FILE", help="An older report on the same workload.")
@click.option("--timings", type=_FILE, metavar="FILE", help="Timings of a live run.")
@click.option("--output", type=_FILE, metavar="FILE", help="Also write the result as JSON to FILE.")
@click.option("--template", is_flag=True, help="Print a policy that REPORT meets, bound to it, and do nothing else.")
@profile_option
@force_option()
@json_option
@click.pass_context
def gate(ctx: click.Context, /, *, report: Path, as_json: bool, profile_name: str, **options: Any) -> int:
    """Check REPORT, which forgepack replay wrote, by a release rule.

    The rule names a workload by its traces' digest, the target and the drafter; exit code 1 when it is not met. A
    value that is missing, null, unbound or invalid fails: it never passes.
    """
    from forgepack.release.replay.gate.judge import gate_json

    if options["template"]:
        from forgepack.release.replay.gate.files import template_of

        echo_json(template_of(report, options["drafter"], load_profile(profile_name)))
        return 0
    check_out_file(ctx, "output")
    clear_output(options["output"])  # an older result must not stand for a run that does not end
    result = _judge(report, options, load_profile(profile_name))
    if options["output"] is not None:
        write_output(options["output"], dump_canonical(gate_json(result)))
    if as_json:
        echo_json(gate_json(result))
    else:
        from forgepack.render.gate_text import gate_lines

        click.echo("\n".join(gate_lines(result)))
    return result.exit_code


def _judge(report: Path, options: dict[str, Any], profile: Profile) -> GateResult:
    from forgepack.release.replay.gate.files import GateFiles, judge_files

    if options["policy"] is None:
        raise UsageError("a gate needs a policy", hint="name one by --policy; --template prints one for REPORT")
    named = {name: options[name] for name in ("policy", "drafter", "baseline", "timings")}
    return judge_files(GateFiles(report=report, **named), profile)
