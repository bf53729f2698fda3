"""Options of ``forgepack verify`` that say what is accepted: attestations, waivers, a baseline, chosen rules."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from forgepack.cli.common import Talk
from forgepack.errors import UsageError
from forgepack.verify.given import Given
from forgepack.verify.selection import parse_selection
from forgepack.verify.sources import Sources
from forgepack.verify.terms import Terms

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    """The files as read; ``named`` are the roles and paths that a report lists."""

    terms: Terms
    given: Given
    named: Mapping[str, str]

    def add_to(self, sources: Sources) -> Sources:
        """Return sources that know of what was given."""
        return replace(sources, given=self.given, named={**sources.named, **self.named})


def terms_options(command: F) -> F:
    """Add the options of this module."""
    for flag, settings in reversed(_OPTIONS):
        command = click.option(flag, **settings)(command)
    return command


def read_accepting(options: Mapping[str, Any], talk: Talk) -> Accepting:
    """Read every file that the options name; UsageError for one that is not there or not valid, with the place."""
    from forgepack.artifacts.attestation import read_attestation
    from forgepack.artifacts.deny import read_deny_list

    terms = _read_terms(options)
    attested, shown, deny = (_numbered(role, options[role]) for role in ("attestation", "evidence", "deny"))
    if options["drafter"] is None and (attested or shown):
        found = "--attestation" if attested else "--evidence"
        raise UsageError("an attestation is of a drafter and a target", expected="DRAFTER and --target", found=found)
    denied: dict[str, str] = {}
    for path in deny.values():
        denied |= read_deny_list(path).reasons
    given = Given(
        attestations=tuple(read_attestation(path, name) for name, path in attested.items()),
        evidence=tuple(_evidence(path, name) for name, path in shown.items()),
        denied=denied,
    )
    if kept := terms.selection.kept():
        talk.detail(f"note: {len(kept)} rules that are never waived run although --ignore names them")
    single = {role: options[role] for role in ("waivers", "baseline") if options[role] is not None}
    files = {**attested, **shown, **deny, **single}
    return Accepting(terms=terms, given=given, named={role: path.as_posix() for role, path in files.items()})


def _read_terms(options: Mapping[str, Any]) -> Terms:
    from forgepack.verify.baseline import read_baseline
    from forgepack.verify.waivers import read_waivers

    waivers, baseline = options["waivers"], options["baseline"]
    today = datetime.datetime.now(datetime.UTC).date()
    return Terms(
        selection=parse_selection(options["select"], options["ignore"]),
        waivers=None if waivers is None else read_waivers(waivers, today),
        baseline=None if baseline is None else read_baseline(baseline),
        exit_zero=options["exit_zero"],
    )


def _evidence(path: Path, name: str) -> Any:
    from forgepack.release.attest.evidence import read_evidence

    return read_evidence(path, name)


def _numbered(role: str, paths: Iterable[Path]) -> dict[str, Path]:
    """Return a role for each of several files: attestation, attestation-2, and so on."""
    return {role if number == 0 else f"{role}-{number + 1}": path for number, path in enumerate(paths)}
