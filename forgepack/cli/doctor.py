"""``forgepack doctor``: what this machine lacks, if anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import NumberRange, echo_json, json_option, profile_option
from forgepack.errors import EXIT_OK, PlatformError
from forgepack.escaping import escape_line
from forgepack.profile import load_profile

if TYPE_CHECKING:
    from forgepack.doctor.machine import Condition

_MARKS = {"ok": "ok", "missing": "MISSING", "note": "note"}


@click.command("doctor")
@click.option("--online", is_flag=True, help="Ask the hub for the profile's checkpoint, too.")
@click.option(
    "--timeout",
    type=NumberRange(0.1, 600.0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --online: longest wait for the hub.",
)
@profile_option
@json_option
def doctor(*, online: bool, timeout: float, profile_name: str, as_json: bool) -> int:
    """Say what this machine lacks, if anything: Python, dependencies, Core AI, data files, disk.

    Exits with 7 when something that the tool needs for its whole work is missing. Nothing is changed, and
    without --online no network is used.
    """
    from forgepack.doctor.machine import look_around

    def reach_hub() -> str:
        from forgepack.hub import HubClient, HubSettings

        pin = load_profile(profile_name).hub
        with HubClient(HubSettings(endpoint=os.environ.get("HF_ENDPOINT") or None, timeout=timeout)) as client:
            files = client.list_files(pin.repo, pin.commit)
            return f"{client.endpoint} lists {len(files)} files of {pin.repo} at {pin.commit[:12]}"

    conditions = look_around(Path.cwd(), reach_hub=reach_hub if online else None)
    if as_json:
        echo_json(conditions_json(conditions))
    else:
        click.echo("\n".join(condition_lines(conditions)))
    return PlatformError.exit_code if any(c.state == "missing" for c in conditions) else EXIT_OK


def conditions_json(conditions: tuple[Condition, ...]) -> dict[str, Any]:
    """Return the conditions as JSON values."""
    return {
        "schema": "forgepack.doctor-report/1",
        "missing": [condition.name for condition in conditions if condition.state == "missing"],
        "conditions": [
            {"name": c.name, "state": c.state, "found": c.found, "hint": c.hint or None} for c in conditions
        ],
    }


def condition_lines(conditions: tuple[Condition, ...]) -> list[str]:
    """Return the conditions as text: one line each, what to do below it, the outcome last."""
    lines = []
    for condition in conditions:
        lines.append(f"{_MARKS[condition.state]:<8} {condition.name:<18} {escape_line(condition.found)}")
        if condition.hint and condition.state != "ok":
            lines.append(f"{'':<27} next: {escape_line(condition.hint)}")
    missing = [condition.name for condition in conditions if condition.state == "missing"]
    lines.append(f"missing: {', '.join(missing)}" if missing else "nothing is missing")
    return lines
