"""A report as plain text for people: root causes first, what follows from each below it, then what was not seen.

The text is the same on a terminal and in a pipe; colour is the command line's to add.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.verify.report import Check, Failure, Finding, Report

SHOWN = 5
_ORDER = ("error", "warning", "note")


def render(report: Report, *, verbose: bool = False) -> str:
    """Return the report as lines; ``verbose`` also lists every check that passed or was not evaluated."""
    lines = [*_head(report), *_failures(report), *_findings(report), *_unknown(report, verbose=verbose)]
    if verbose:
        lines += [f"pass    {check.id}  {check.title}" for check in report.checks if check.status == "pass"]
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield f"{report.verdict.upper()}  profile {escape_line(report.profile)}, depth {report.depth.label}"
    for one in report.inputs:
        yield f"  {one.role}: {escape_line(one.path)}"
    yield ""


def _failures(report: Report) -> Iterator[str]:
    for failure in report.failures:
        yield from _failure(failure)
        yield ""


def _failure(failure: Failure) -> Iterator[str]:
    yield f"can't verify (exit {failure.exit_code}): {escape_line(failure.what)}"
    fields = {"where": failure.where, "expected": failure.expected, "found": failure.found, "next": failure.hint}
    for name, value in fields.items():
        if value:
            yield f"  {name}: {escape_line(value)}"


def _findings(report: Report) -> Iterator[str]:
    followers: dict[str, list[Check]] = {}
    for check in report.checks:
        if check.cause is not None and check.status in ("fail", "not-evaluated"):
            followers.setdefault(check.cause, []).append(check)
    for severity in _ORDER:
        for check in report.failed(severity):  # type: ignore[arg-type]
            if check.cause is None:
                yield from _check(check)
                yield from _consequences(followers.get(check.id, []), followers)
                yield ""


def _check(check: Check, indent: str = "") -> Iterator[str]:
    yield f"{indent}{check.id} {check.severity}: {check.title}"
    for finding in check.findings[:SHOWN]:
        yield from _finding(finding, indent + "  ")
    if check.count > SHOWN:
        yield f"{indent}  … and {check.count - SHOWN} more of this kind"
    yield f"{indent}  why: {check.why}"
    yield f"{indent}  next: {check.remedy}"


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
        more = f" (+{check.count - 1})" if check.count > 1 else ""
        yield f"  follows: {check.id} {check.title}: {escape_line(first.found)}{more}"
        yield from _consequences(followers.get(check.id, []), followers)
    unknown = [check.id for check in checks if check.status == "not-evaluated"]
    if unknown:
        yield f"  not evaluated because of it: {', '.join(unknown)}"


def _unknown(report: Report, *, verbose: bool) -> Iterator[str]:
    """List the checks that were not evaluated for a reason of their own, reasons grouped."""
    failed = {check.id for check in report.checks if check.status == "fail"}
    reasons: dict[tuple[bool, str], list[str]] = {}
    for check in report.checks:
        if check.status != "not-evaluated" or check.cause in failed:
            continue
        if check.depth <= report.depth or verbose:
            reasons.setdefault((check.required, check.reason), []).append(check.id)
    for (required, reason), ids in sorted(reasons.items(), key=lambda item: (not item[0][0], item[0][1])):
        kind = "not evaluated, though required" if required else "not evaluated"
        yield f"{kind}: {escape_line(reason)}: {', '.join(ids)}"
    if reasons:
        yield ""


def _summary(report: Report) -> str:
    deeper = sum(check.depth > report.depth for check in report.checks)
    unknown = report.count("not-evaluated") - deeper
    parts = [f"{report.count('pass')} passed"]
    parts += [f"{len(report.failed(s))} {name}" for s, name in _COUNTED if report.failed(s)]  # type: ignore[arg-type]
    parts += [f"{unknown} not evaluated"] if unknown else []
    parts += [f"{report.count('waived')} waived"] if report.count("waived") else []
    parts += [f"{deeper} need a greater depth"] if deeper else []
    return f"{report.verdict}: {len(report.checks)} checks, {', '.join(parts)}"


_COUNTED = (("error", "failed"), ("warning", "with warnings"), ("note", "with notes"))
