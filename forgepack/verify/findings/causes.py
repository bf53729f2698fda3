"""Findings as lines of text for people: root causes first, what follows from each below it."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.verify.findings.report import SEVERITIES, Check, Failure, Finding, Report, Severity

SHOWN = 5


def cause_lines(
    report: Report, *, verbose: bool = False, waivers: bool = True, severities: tuple[Severity, ...] = SEVERITIES
) -> Iterator[str]:
    """Yield every failed check that no other explains, with what follows from it, and an empty line after each.

    ``waivers`` adds the digest that a waiver of a refusing finding needs, ``verbose`` that of any.
    """
    followers: dict[str, list[Check]] = {}
    for check in report.checks:
        if check.cause is not None and check.status in ("fail", "not-evaluated"):
            followers.setdefault(check.cause, []).append(check)
    for severity in severities:
        for check in report.failed(severity):
            if check.cause is None:
                yield from _check(check, digests=waivers and check.waivable and (verbose or report.refuses(check)))
                yield from _consequences(followers.get(check.id, []), followers)
                yield ""


def failure_lines(failure: Failure) -> Iterator[str]:
    """Yield what kept a verification from finishing."""
    yield f"can't verify (exit {failure.exit_code}): {escape_line(failure.what)}"
    fields = {"where": failure.where, "expected": failure.expected, "found": failure.found, "next": failure.hint}
    for name, value in fields.items():
        if value:
            yield f"  {name}: {escape_line(value)}"


def _check(check: Check, *, digests: bool) -> Iterator[str]:
    """Report a failed check; ``digests`` adds what a waiver of each finding needs."""
    yield f"{check.id} {check.severity}: {check.violation}"
    for finding in check.held(None)[:SHOWN]:
        yield from _finding(finding, "  ")
        if digests:
            yield f"    digest:   {finding.digest(check.id)}"
    if check.counting > SHOWN:
        yield f"  … and {check.counting - SHOWN} more of this kind"
    yield f"  why: {check.why}"
    yield f"  next: {check.remedy}"


def _finding(finding: Finding, indent: str) -> Iterator[str]:
    place = finding.where if finding.where.startswith(finding.subject) else f"{finding.subject} ({finding.where})"
    message = f": {finding.message}" if finding.message else ""
    yield f"{indent}- {escape_line(place + message)}"
    if finding.expected:
        yield f"{indent}  expected: {escape_line(finding.expected)}"
    if finding.found:
        yield f"{indent}  found:    {escape_line(finding.found)}"


def _consequences(checks: list[Check], followers: dict[str, list[Check]]) -> Iterator[str]:
    """Say what follows from a root cause: failed checks one line each, the others counted."""
    failed = [check for check in checks if check.status == "fail"]
    for check in failed:
        first = check.findings[0]
        more = f" (+{check.counting - 1})" if check.counting > 1 else ""
        yield f"  follows: {check.id} {check.violation}: {escape_line(first.found)}{more}"
        yield from _consequences(followers.get(check.id, []), followers)
    unknown = [check.id for check in checks if check.status == "not-evaluated"]
    if unknown:
        yield f"  not evaluated because of it: {', '.join(unknown)}"
