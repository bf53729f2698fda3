"""What a verification found: checks with their findings, failures to read, one verdict and one exit code.

A check ends as pass, fail, not-evaluated (with the reason) or waived. Unknown is not pass: a required check
that is not evaluated fails the verdict as a finding does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from forgepack.canonical import digest_json
from forgepack.errors import EXIT_OK, EXIT_REFUSED, ForgepackError
from forgepack.escaping import escape_line

Severity = Literal["error", "warning", "note"]
Status = Literal["pass", "fail", "not-evaluated", "waived"]
Verdict = Literal["pass", "fail", "error"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
STATUSES: tuple[Status, ...] = ("pass", "fail", "not-evaluated", "waived")
# Which exit code wins when several apply, strongest first (the documented precedence).
PRECEDENCE = (130, 70, 5, 7, 6, 4, 3, EXIT_REFUSED, EXIT_OK)


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
class Finding:
    """One fault: what was compared, what was expected and found, and where (file and JSON path or tensor)."""

    subject: str
    expected: str
    found: str
    where: str = ""
    message: str = ""

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
    evaluated fails the verdict.
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

    @property
    def area(self) -> str:
        """The area of the contract: the letters of the id."""
        return self.id.rstrip("0123456789")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One input of the report: what it is, the path as it was named, and digests that say which one it is."""

    role: str
    path: str
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole outcome; ``strict`` says whether warnings count as errors."""

    version: str
    profile: str
    profile_digest: str
    depth: Depth
    strict: bool
    inputs: tuple[Identity, ...]
    checks: tuple[Check, ...]
    failures: tuple[Failure, ...]

    @property
    def exit_code(self) -> int:
        """The documented exit code; the strongest wins where several apply."""
        refused = [EXIT_REFUSED for check in self.checks if self.refuses(check)]
        return strongest([failure.exit_code for failure in self.failures] + refused)

    @property
    def verdict(self) -> Verdict:
        """``pass``, ``fail``, or ``error`` when the verification could not be finished."""
        code = self.exit_code
        return "pass" if code == EXIT_OK else "fail" if code == EXIT_REFUSED else "error"

    def refuses(self, check: Check) -> bool:
        """Say whether this check alone fails the verdict."""
        if check.status == "fail":
            return check.severity == "error" or (self.strict and check.severity == "warning")
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
