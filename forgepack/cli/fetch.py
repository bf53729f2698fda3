"""``forgepack fetch``: download the checkpoint at a pinned commit, verify one, or adopt one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import NumberRange, console_of, echo_json, force_option, json_option, profile_option
from forgepack.cli.fetch_progress import hub_effects
from forgepack.disk.space import demand_space
from forgepack.errors import UsageError
from forgepack.escaping import escape
from forgepack.profile import Profile, load_profile

if TYPE_CHECKING:
    from forgepack.hub import Effects, FetchReport

_FOLDER = click.Path(path_type=Path)


@click.command("fetch")
@profile_option
@click.option("--revision", metavar="COMMIT", help="Full 40-hex commit; default: the profile's.")
@click.option("--out", type=_FOLDER, metavar="DIR", help="Folder that is to hold the checkpoint.")
@click.option("--adopt", type=_FOLDER, metavar="DIR", help="Take in a folder obtained otherwise; --out copies it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, write nothing.")
@click.option("--offline", is_flag=True, help="Verify --out against its lock, byte by byte, without network.")
@click.option(
    "--timeout",
    type=NumberRange(0.1, 3600.0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for an answer or for more bytes.",
)
@force_option()
@json_option
@click.pass_context
def fetch(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Download the checkpoint at a pinned commit into a folder and lock it.

    Only the profile's files are taken; each is hashed while it lands and compared with the hub's record of the
    commit. A download that was cut or killed goes on where it stopped when the same command runs again. The folder
    is complete when it holds checkpoint.lock.json; run again, the command compares every byte and downloads nothing.

    A branch, tag or short hash is refused. A commit other than the profile's is taken when --revision names it, but
    every command that checks by this profile will refuse the result.

    The token comes from HF_TOKEN or from `hf auth login`; HF_ENDPOINT and the usual proxy variables are honoured.
    """
    console = console_of(ctx)
    profile = load_profile(profile_name)
    with hub_effects(console) as effects:
        report = _run(profile, options, effects)
    for note in report.notes:
        console.say(f"note: {note}")
    if as_json:
        echo_json(report_json(report))
    else:
        click.echo("\n".join(report_lines(report)))
    if report.dry_run and report.free is not None:
        demand_space(report.needed, report.free, report.root)


def _run(profile: Profile, options: dict[str, Any], effects: Effects) -> FetchReport:
    """Call the library function that the options ask for."""
    from forgepack import hub

    out, adopt, offline = options["out"], options["adopt"], options["offline"]
    shared = {key: options[key] for key in ("revision", "force", "dry_run")}
    if adopt is not None:
        if offline and out is not None:
            raise UsageError("--adopt needs no network, and --offline verifies: give one of them", code="usage")
        return hub.adopt_checkpoint(
            hub.AdoptRequest(profile=profile, source=adopt, out=out, **shared), effects=effects
        )
    if out is None:
        raise UsageError("name the folder for the checkpoint", hint="add --out DIR", code="usage")
    request = hub.FetchRequest(profile=profile, out=out, **shared)
    if offline:
        return hub.verify_checkpoint(request, effects)
    endpoint = os.environ.get("HF_ENDPOINT") or None
    settings = hub.HubSettings(endpoint=endpoint, timeout=options["timeout"])
    return hub.fetch_checkpoint(request, settings=settings, effects=effects)


def report_json(report: FetchReport) -> dict[str, Any]:
    """Return the report as the JSON object that --json prints; keys do not depend on what was done."""
    return {
        "schema": "forgepack.fetch-report/1",
        "repo": report.repo,
        "commit": report.commit,
        "adopted": report.adopted,
        "dry_run": report.dry_run,
        "out": report.root.as_posix(),
        "lock_digest": None if report.lock is None else report.lock.digest,
        "disk": {"needed": report.needed, "free": report.free},
        "received": sum(f.received for f in report.files),
        "files": [
            {"path": f.path, "bytes": f.bytes, "sha256": f.sha256, "action": f.action, "received": f.received}
            for f in report.files
        ],
        "notes": list(report.notes),
    }


def report_lines(report: FetchReport) -> list[str]:
    """Return the report as text: a line a file, then the outcome."""
    wide = max(len(f.path) for f in report.files)
    lines = [
        f"{f.action:<10}  {escape(f.path):<{wide}}  {f.bytes:>13,}  {f.sha256 or '(not in LFS: hashed on arrival)'}"
        for f in report.files
    ]
    if report.lock is None:
        free = "" if report.free is None else f", {report.free:,} bytes free"
        lines.append(f"dry run: {report.needed:,} bytes to download{free}; nothing was written")
    else:
        lines.append(f"{report.repo} @ {report.commit} in {escape(str(report.root))}, lock {report.lock.digest}")
    return lines
