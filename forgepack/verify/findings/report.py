"""What a verification found: checks with their findings, failures to read, one verdict and one exit code.

A check ends as pass, fail, not-evaluated (with the reason), waived or known: the latter two when all its findings are
accepted. Unknown is not pass: a required check that is not evaluated fails the verdict as a finding does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from forgepack.canonical import digest_json
from forgepack.errors import EXIT_OK, EXIT_REFUSED, ForgepackError, UnreadableError
from forgepack.escaping import escape_line

Severity = Literal["error", "warning", "note"]
Status = Literal["pass", "fail", "not-evaluated", "waived", "known"]
Verdict = Literal["pass", "selection", "fail", "error"]
Origin = Literal["command line", "variable", "file", "caller"]

# Options that the command sets itself: a report shows them only when asked for all.
AT_HAND: tuple[Origin, ...] = ("command line", "caller")

# The set of rules, stated in every report: raised once in each release that adds, retires or sharpens rules.
RULE_SET = 2
FIRST_RULE_SET = 1  # that of 0.1.0, whose statuses tests/compat holds
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
STATUSES: tuple[Status, ...] = ("pass", "fail", "not-evaluated", "waived", "known")
# Digests in a text, which change from build to build.
_HEX = re.compile(r"\b[0-9a-f]{32,}\b")
# Which exit code wins when several apply, strongest first (the documented precedence).
PRECEDENCE = (130, 70, 5, 7, 6, 4, 3, 2, EXIT_REFUSED, EXIT_OK)


class Depth(IntEnum):
    """How deep a verification looks; each depth includes those before it."""

    HEADER = 0
    HASH = 1
    LINEAGE = 2
    RUN = 3

    @property
    def label(self) -> str:
        """The name on the command line."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Why a finding does not count: waived by its owner until a day, or known from a baseline."""

    kind: Literal["waived", "known"]
    reason: str = ""
    owner: str = ""
    expires: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: what was compared, what was expected and found, and where (file and JSON path or tensor)."""

    subject: str
    expected: str
    found: str
    where: str = ""
    message: str = ""
    accepted: Accepted | None = None

    @property
    def place(self) -> str:
        """The place as reports print it, one line: what a waiver names."""
        return escape_line(self.where)

    def digest(self, rule: str) -> str:
        """Return the SHA-256 of all that a finding says, as reports print it: what a waiver is bound to."""
        return digest_json({"rule": rule, **self._texts()})

    def key(self, rule: str) -> str:
        """Return what a baseline knows a finding by: all that it says, but for the digests in it."""
        return digest_json({"rule": rule, **{k: _HEX.sub("…", text) for k, text in self._texts().items()}})[:32]

    def _texts(self) -> dict[str, str]:
        fields = ("subject", "where", "expected", "found", "message")
        return {name: escape_line(getattr(self, name)) for name in fields}

    def fingerprint(self, rule: str) -> str:
        """Return a stable identity of this finding: the rule, the subject and both sides."""
        parts = (rule, self.subject, self.where, self.expected, self.found)
        return digest_json([escape_line(part) for part in parts])[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something that kept the verification from finishing: an unreadable input, a limit, a missing platform."""

    what: str
    where: str
    expected: str
    found: str
    hint: str
    code: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one rule. ``count`` counts all findings, ``findings`` holds the first of them.

    ``cause`` names the rule whose failure explains this outcome; ``required`` says whether a check that was not
    evaluated fails the verdict. Of the findings ``waived`` and ``known`` are accepted; those that count stand first.
    ``more`` are the baseline's keys of the findings that are not held.
    """

    id: str
    title: str
    severity: Severity
    depth: Depth
    status: Status
    required: bool
    why: str
    remedy: str
    reason: str = ""
    cause: str | None = None
    count: int = 0
    findings: tuple[Finding, ...] = ()
    waived: int = 0
    known: int = 0
    more: tuple[str, ...] = ()
    waivable: bool = False
    selected: bool = True
    fails: str = ""

    @property
    def area(self) -> str:
        """The area of the contract: the letters of the id."""
        return self.id.rstrip("0123456789")

    @property
    def violation(self) -> str:
        """What is wrong where the check failed: the rule's own text, else that its title does not hold."""
        return self.fails or f"does not hold: {self.title}"

    @property
    def counting(self) -> int:
        """How many findings are neither waived nor known."""
        return self.count - self.waived - self.known

    def held(self, kind: Literal["waived", "known"] | None) -> tuple[Finding, ...]:
        """Return the held findings that are accepted so; with None those that count."""
        return tuple(f for f in self.findings if (None if f.accepted is None else f.accepted.kind) == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One input of the report: what it is, the path as it was named, and digests that say which one it is."""

    role: str
    path: str
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A finding of the baseline that is not found any more."""

    rule: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineResult:
    """Which report was the baseline, what is gone since, and which inputs have other digests now."""

    path: str
    sha256: str
    gone: tuple[Gone, ...]
    other_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """How rules were selected: prefixes as named, and ids that --ignore names without effect."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An option that has not its default: its value, and where it was set (the variable, or the file and its key).

    ``caller`` is a program that calls the library.
    """

    name: str
    value: str
    source: Origin
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole outcome; ``strict`` says whether warnings count as errors.

    ``exit_zero`` makes a refusal end with 0 unless a rule that is never waived refuses; the verdict stays.
    ``narrowed`` is None where every rule was selected, ``baseline`` where none was given. ``options`` are those that
    decided the outcome and have not their defaults. ``rule_set`` says by which set of rules it was made: two reports
    of one set evaluated the same rules.
    """

    version: str
    profile: str
    profile_digest: str
    depth: Depth
    strict: bool
    inputs: tuple[Identity, ...]
    checks: tuple[Check, ...]
    failures: tuple[Failure, ...]
    exit_zero: bool = False
    narrowed: Narrowed | None = None
    baseline: BaselineResult | None = None
    options: tuple[Chosen, ...] = ()
    rule_set: int = RULE_SET

    @property
    def exit_code(self) -> int:
        """The documented exit code; the strongest wins where several apply."""
        return self._code([check for check in self.checks if self.refuses(check) and not self._forgiven(check)])

    def _code(self, refusing: list[Check]) -> int:
        return strongest([failure.exit_code for failure in self.failures] + [self._code_of(one) for one in refusing])

    def _code_of(self, check: Check) -> int:
        """Return the code of one refusal: a selected rule that can't be evaluated is a question without an answer."""
        unknown = self.is_selection and check.status == "not-evaluated"
        return UnreadableError.exit_code if unknown else EXIT_REFUSED

    def _forgiven(self, check: Check) -> bool:
        return self.exit_zero and check.waivable and self._code_of(check) == EXIT_REFUSED

    @property
    def is_selection(self) -> bool:
        """Whether rules were chosen by --select: then nothing is said of the pair, only of those rules."""
        return self.narrowed is not None and bool(self.narrowed.select)

    @property
    def not_selected(self) -> int:
        """How many rules were left out by name: with any, a pass is none of the whole."""
        return sum(not check.selected for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """``pass``, ``fail``, or ``error`` when the verification could not be finished.

        ``selection`` stands in place of ``pass`` where --select chose the rules: it is never taken for one.
        """
        code = self._code([check for check in self.checks if self.refuses(check)])
        if code == EXIT_OK:
            return "selection" if self.is_selection else "pass"
        return "fail" if code == EXIT_REFUSED else "error"

    def refuses(self, check: Check) -> bool:
        """Say whether this check alone fails the verdict; of a selection every rule must be evaluated and pass."""
        if check.status == "fail":
            return check.severity == "error" or self.is_selection or (self.strict and check.severity == "warning")
        return check.status == "not-evaluated" and check.required

    def count(self, status: Status) -> int:
        """Return how many checks ended so."""
        return sum(check.status == status for check in self.checks)

    def failed(self, severity: Severity) -> list[Check]:
        """Return the failed checks of one severity: root causes first, then by id."""
        chosen = [c for c in self.checks if c.status == "fail" and c.severity == severity]
        return sorted(chosen, key=lambda c: (c.cause is not None, c.id))


def strongest(codes: Iterable[int]) -> int:
    """Return the exit code that wins among ``codes``; 0 for none."""
    return min({EXIT_OK, *codes}, key=PRECEDENCE.index)


def failure_of(err: ForgepackError, where: str) -> Failure:
    """Return an error as the failure that a report lists."""
    return Failure(
        what=err.what,
        where=where,
        expected=err.expected or "",
        found=err.found or "",
        hint=err.hint or "",
        code=err.code,
        exit_code=err.exit_code,
    )
