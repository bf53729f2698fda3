"""A report as plain text for people: root causes first, what follows from each below it, then what was not seen.

The text is the same on a terminal and in a pipe; colour is the command line's to add.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.render.accepted import accepted_lines, baseline_lines, partial_text
from forgepack.verify.bond import NO_ATTESTATION, NO_EVIDENCE
from forgepack.verify.report import Check, Failure, Finding, Report, Status

SHOWN = 5
_LONG_RUN = 3
# What most pairs have not, and need not: told with -v alone.
_UNASKED = {NO_ATTESTATION, NO_EVIDENCE}
_ORDER = ("error", "warning", "note")


def render(report: Report, *, verbose: bool = False) -> str:
    """Return the report as lines; ``verbose`` also lists every check that passed or was not evaluated."""
    lines = [*_head(report), *_failures(report), *_findings(report, verbose=verbose), *_accepted(report)]
    lines += _unknown(report, verbose=verbose)
    if verbose:
        lines += [f"pass    {check.id}  {check.title}" for check in report.checks if check.status == "pass"]
        lines.append(f"forgepack {report.version}, rule set {report.rule_set}")
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    partial = f", {partial_text(report)}" if report.not_selected else ""
    yield f"{report.verdict.upper()}{partial}  profile {escape_line(report.profile)}, depth {report.depth.label}"
    for one in report.inputs:
        yield f"  {one.role}: {escape_line(one.path)}"
    yield from (f"  {line}" for line in _terms(report))
    yield ""


def _terms(report: Report) -> Iterator[str]:
    """Say what was left out, and which rules can't be."""
    narrowed = report.narrowed
    if narrowed is not None:
        named = {"selected": narrowed.select, "ignored": narrowed.ignore}
        yield "; ".join(f"{word}: {', '.join(prefixes)}" for word, prefixes in named.items() if prefixes)
    if narrowed is not None and narrowed.kept:
        shown = ", ".join(narrowed.kept[:SHOWN])
        more = f" and {len(narrowed.kept) - SHOWN} more" if len(narrowed.kept) > SHOWN else ""
        yield f"never ignored: {shown}{more}"


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


def _findings(report: Report, *, verbose: bool) -> Iterator[str]:
    followers: dict[str, list[Check]] = {}
    for check in report.checks:
        if check.cause is not None and check.status in ("fail", "not-evaluated"):
            followers.setdefault(check.cause, []).append(check)
    for severity in _ORDER:
        for check in report.failed(severity):  # type: ignore[arg-type]
            if check.cause is None:
                yield from _check(check, digests=check.waivable and (verbose or report.refuses(check)))
                yield from _consequences(followers.get(check.id, []), followers)
                yield ""


def _check(check: Check, *, digests: bool) -> Iterator[str]:
    """Tell a failed check; ``digests`` adds what a waiver of each finding needs."""
    yield f"{check.id} {check.severity}: {check.title}"
    for finding in check.held(None)[:SHOWN]:
        yield from _finding(finding, "  ")
        if digests:
            yield f"    digest:   {finding.digest(check.id)}"
    if check.counting > SHOWN:
        yield f"  … and {check.counting - SHOWN} more of this kind"
    yield f"  why: {check.why}"
    yield f"  next: {check.remedy}"


def _accepted(report: Report) -> Iterator[str]:
    """Tell what is waived or known: accepted, but never out of sight; then what is gone since the baseline."""
    told = False
    for check in report.checks:
        lines = list(accepted_lines(check))
        if lines:
            told = True
            yield f"{check.id} {check.severity}, {_states(check)}: {check.title}"
            yield from (f"  - {line}" for line in lines[:SHOWN])
            if len(lines) > SHOWN:
                yield f"  … and {check.waived + check.known - SHOWN} more of this kind"
    lines = list(baseline_lines(report))
    yield from lines
    if told or lines:
        yield ""


def _states(check: Check) -> str:
    counts = {"waived": check.waived, "known": check.known}
    return " and ".join(f"{count} {state}" for state, count in counts.items() if count)


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
        if check.status != "not-evaluated" or check.cause in failed or not check.selected:
            continue
        if verbose or (check.depth <= report.depth and check.reason not in _UNASKED):
            reasons.setdefault((check.required, check.reason), []).append(check.id)
    for (required, reason), ids in sorted(reasons.items(), key=lambda item: (not item[0][0], item[0][1])):
        kind = "not evaluated, though required" if required else "not evaluated"
        yield f"{kind}: {escape_line(reason)}: {', '.join(_runs(report, ids))}"
    if reasons:
        yield ""


def _runs(report: Report, ids: list[str]) -> Iterator[str]:
    """Yield ids, those of an area that follow each other as one run: CTR040 to CTR056."""
    order = {check.id: number for number, check in enumerate(report.checks)}
    run: list[str] = []
    for ident in [*ids, ""]:
        if run and (not ident or order[ident] != order[run[-1]] + 1 or ident[:3] != run[-1][:3]):
            yield from [f"{run[0]} to {run[-1]}"] if len(run) > _LONG_RUN else run
            run = []
        run.append(ident)


def _summary(report: Report) -> str:
    deeper = sum(check.selected and check.depth > report.depth for check in report.checks)
    unknown = report.count("not-evaluated") - deeper - report.not_selected
    parts = [f"{report.count('pass')} passed"]
    parts += [f"{len(report.failed(s))} {name}" for s, name in _COUNTED if report.failed(s)]  # type: ignore[arg-type]
    parts += [f"{unknown} not evaluated"] if unknown else []
    parts += [f"{report.count(state)} {state}" for state in _ACCEPTED if report.count(state)]
    parts += [f"{deeper} need a greater depth"] if deeper else []
    parts += [partial_text(report)] if report.not_selected else []
    text = f"{report.verdict}: {len(report.checks)} checks, {', '.join(parts)}"
    if report.exit_zero and report.verdict == "fail":
        text += f"; exit code {report.exit_code} with --exit-zero"
    return text


_ACCEPTED: tuple[Status, ...] = ("waived", "known")
_COUNTED = (("error", "failed"), ("warning", "with warnings"), ("note", "with notes"))
