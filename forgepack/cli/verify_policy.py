"""Options of ``forgepack verify`` that say what is accepted: attestations, waivers, a baseline, chosen rules."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forgepack.cli.common import Console

if TYPE_CHECKING:
    from forgepack.release.verification.run import Accepting

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--attestation",
        {"multiple": True, "type": _FILE, "metavar": "FILE", "help": "Attestation of DRAFTER for another target."},
    ),
    (
        "--evidence",
        {"multiple": True, "type": _FILE, "metavar": "FILE", "help": "Report that an attestation was made of."},
    ),
    ("--deny", {"multiple": True, "type": _FILE, "metavar": "FILE", "help": "List of withdrawn digests."}),
    ("--waivers", {"type": _FILE, "metavar": "FILE", "help": "Accepted findings, with an expiry date."}),
    (
        "--baseline",
        {"type": _FILE, "metavar": "FILE", "help": "JSON report of an earlier build: fail on new findings only."},
    ),
    (
        "--select",
        {
            "multiple": True,
            "metavar": "PREFIX",
            "help": "Run only these rules, by the start of their ids; the verdict is never a pass.",
        },
    ),
    (
        "--ignore",
        {"multiple": True, "metavar": "PREFIX", "help": "Leave rules out; those that are never waived still run."},
    ),
    (
        "--exit-zero",
        {"is_flag": True, "help": "End a refusal with 0, unless a rule that is never waived refuses."},
    ),
)


def policy_options(command: F) -> F:
    """Add the options of this module."""
    for flag, settings in reversed(_OPTIONS):
        command = click.option(flag, **settings)(command)
    return command


def read_accepting(options: Mapping[str, Any], console: Console) -> Accepting:
    """Read every file that the options name; UsageError for one that is not there or not valid, with the place."""
    from forgepack.release.verification.run import Acceptance
    from forgepack.release.verification.run import read_accepting as read

    acceptance = Acceptance(
        attestations=options["attestation"],
        evidence=options["evidence"],
        deny=options["deny"],
        waivers=options["waivers"],
        baseline=options["baseline"],
        select=options["select"],
        ignore=options["ignore"],
        exit_zero=options["exit_zero"],
        today=today(),
    )
    accepting = read(acceptance, of_pair=options["drafter"] is not None)
    if kept := accepting.policy.selection.kept():
        console.detail(f"note: {len(kept)} rules that are never waived run although --ignore names them")
    return accepting


def today() -> datetime.date:
    """Return the day in UTC: waivers expire by it."""
    return datetime.datetime.now(datetime.UTC).date()
