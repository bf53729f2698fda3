"""Where each option may be set besides the command line: data that the readers of files and variables share.

What weakens a verification, names its subject or writes comes from the command line alone: the owner of a folder or
of an environment is not the one who runs a check there. A file or a variable may strengthen, or choose among harmless
values. An option without a line here is set by the command line alone, and a test fails until it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from forgepack.profile import profile_names
from forgepack.verify.findings.report import Depth

Keeps = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values that a place may give: those that ``choices`` returns, any where there is none."""

    choices: Callable[[], tuple[str, ...]] | None = None

    def hold(self, value: Any) -> bool:
        """Say whether a value, as the option's type reads it, may come from there."""
        return self.choices is None or value in self.choices()

    @property
    def shown(self) -> str:
        """The values in words."""
        return "any value" if self.choices is None else " or ".join(self.choices())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settable:
    """What a configuration file and a FORGEPACK_* variable may give; None: nothing.

    ``keeps(variable, file)`` says whether a variable leaves in force what the file demands; None: it is free to.
    ``told`` options decide the outcome of a verification, so its report says where they came from.
    """

    file: Values | None = None
    variable: Values | None = None
    keeps: Keeps | None = None
    told: bool = True


def _not_below(lowest: Depth) -> Values:
    return Values(choices=lambda: tuple(depth.label for depth in Depth if depth >= lowest))


def _as_deep(variable: Any, file: Any) -> bool:
    return Depth[str(variable).upper()] >= Depth[str(file).upper()]


def _as_strict(variable: Any, file: Any) -> bool:
    return bool(variable) or not file


def _as_many(variable: Any, file: Any) -> bool:
    return {str(one) for one in file} <= {str(one) for one in variable}


ANY = Values()
SHIPPED = Values(choices=lambda: tuple(profile_names()))
LINE = Settable()
BOTH = Settable(file=ANY, variable=ANY)
FILE = Settable(file=ANY)
VARIABLE = Settable(variable=ANY)
# A profile decides what passes: a file of the checkout may name one that ships, but not bring its own.
JUDGE = Settable(file=SHIPPED, variable=ANY)
UNTOLD = Settable(told=False)

TARGET = ("target", "target-model", "target-build", "target-export")
# Of every command, also before its name.
TALK = {"quiet": Settable(variable=ANY, told=False), "verbose": Settable(variable=ANY, told=False), "help": LINE}
# Of the program itself, before the command's name. A file can only strengthen, so none is put aside by a variable.
PROGRAM = {"config": LINE, "isolated": LINE, "version": LINE, **TALK}


def _each(settable: Settable, *names: str) -> dict[str, Settable]:
    return dict.fromkeys(names, settable)


SETTABLE: Mapping[str, Mapping[str, Settable]] = {
    "fetch": {
        **_each(LINE, "revision", "out", "adopt", "dry-run", "force", "json"),
        **_each(BOTH, "profile", "offline", "timeout"),
    },
    "quantize": {
        **_each(BOTH, "traces", "held-out", *TARGET, "profile"),
        **_each(BOTH, "method", "mask-scale", "deploy-mask-scale", "threads"),
        **_each(LINE, "out", "dry-run", "force", "json"),
    },
    "emit": {
        **_each(BOTH, "checkpoint", *TARGET, "profile"),
        **_each(LINE, "out", "allow-links", "dry-run", "force", "json"),
    },
    "verify": {
        "profile": JUDGE,
        "depth": Settable(file=_not_below(Depth.LINEAGE), variable=_not_below(Depth.LINEAGE), keeps=_as_deep),
        "strict": Settable(file=ANY, variable=ANY, keeps=_as_strict),
        "deny": Settable(file=ANY, variable=ANY, keeps=_as_many),
        **_each(BOTH, "timeout", "blocks"),
        "format": Settable(file=ANY, variable=ANY, told=False),
        "report": UNTOLD,
        "whole": UNTOLD,
        "force": UNTOLD,
        **_each(LINE, "bundle", "hub", "plain", *TARGET, "quant", "checkpoint", "traces", "allow-links"),
        **_each(LINE, "attestation", "evidence", "waivers", "baseline", "select", "ignore", "exit-zero"),
    },
    "bundle": {
        "profile": JUDGE,
        "depth": Settable(file=_not_below(Depth.HASH), variable=_not_below(Depth.HASH), keeps=_as_deep),
        **_each(BOTH, *TARGET, "export", "documents", "upstream-id", "upstream-revision"),
        **_each(LINE, "out", "allow-links", "dry-run", "force", "json"),
    },
    # A recipe is written to be built: its output and what it accepts are its purpose, and stand in its lock.
    "build": {
        **_each(replace(BOTH, told=False), "checkpoint", "commit", "traces", "held-out", *TARGET),
        **_each(replace(FILE, told=False), "output", "work"),
        **_each(FILE, "waivers", "attestation"),
        "profile": BOTH,
        "locked": replace(VARIABLE, told=False),
        **_each(UNTOLD, "force", "json"),
    },
    "replay": {
        **_each(BOTH, "traces", *TARGET, "checkpoint", "threads", "profile"),
        **_each(LINE, "against", "workload", "mask-scale", "plot", "report", "force", "json"),
    },
    "gate": {
        "profile": JUDGE,
        **_each(LINE, "policy", "drafter", "baseline", "timings", "output", "template", "force", "json"),
    },
    "attest": {
        "profile": JUDGE,
        "depth": Settable(file=_not_below(Depth.LINEAGE), variable=_not_below(Depth.LINEAGE), keeps=_as_deep),
        **_each(LINE, *TARGET, "evidence", "out", "allow-links", "dry-run", "force", "json"),
    },
    "diff": {"profile": VARIABLE, **_each(LINE, "target", "json")},
    "inspect": {"profile": VARIABLE, **_each(LINE, "deep", "json")},
    "demo": _each(LINE, "work", "files", "threads", "json"),
    "explain": _each(LINE, "all", "json"),
    "rules": _each(LINE, "format"),
    "schema": _each(LINE, "list"),
    "doctor": {"profile": VARIABLE, **_each(LINE, "online", "timeout", "json")},
    "completion": {},
}


def settable(command: str, option: str) -> Settable:
    """Return where an option may be set, by its long name without dashes."""
    return SETTABLE.get(command, {}).get(option) or TALK.get(option) or LINE


def reads_file(command: str) -> bool:
    """Say whether a file may set any option of a command."""
    return any(one.file is not None for one in SETTABLE.get(command, {}).values())
