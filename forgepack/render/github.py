"""A report as workflow commands of GitHub Actions: one annotation a finding, and one summary line."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.render.accepted import accepted_text, baseline_lines, origin_text, partial_text
from forgepack.verify.findings.report import AT_HAND, Check, Report

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> bytes:
    """Return one command a line; text from files can't start or end one."""
    return "".join(f"{line}\n" for line in _lines(report)).encode("utf-8")


def _lines(report: Report) -> Iterator[str]:
    for failure in report.failures:
        text = f"{failure.what}. {failure.found}".strip()
        yield _command("error", failure.where, f"forgepack: exit {failure.exit_code}", text)
    for check in report.checks:
        if check.status == "fail":
            yield from _findings(report, check)
        elif check.status == "not-evaluated" and report.refuses(check) and check.cause is None:
            yield _command("error", "", f"{check.id} not evaluated", f"{check.title}: {check.reason}")
        yield from _accepted(check)
    if report.not_selected:
        total = len(report.checks)
        text = f"{total - report.not_selected} of {total} rules ran: this is not a verdict on the whole"
        yield _command("warning", "", f"forgepack: {partial_text(report)}", text)
    for one in report.options:
        if one.source not in AT_HAND:
            yield _command("notice", "", "forgepack: an option was not given on the command line", origin_text(one))
    yield from baseline_lines(report)
    counts = [f"{report.count('pass')} of {len(report.checks)} checks passed"]
    counts += [f"{report.count(status)} {status}" for status in ("waived", "known") if report.count(status)]
    counts += [partial_text(report)] if report.not_selected else []
    yield f"forgepack {report.verdict}: {', '.join(counts)}"


def _findings(report: Report, check: Check) -> Iterator[str]:
    kind = "error" if report.refuses(check) else _COMMANDS[check.severity]
    for finding in check.held(None):
        place, _, part = finding.where.partition(": ")
        sides = f"expected {finding.expected}, found {finding.found}"
        message = f" ({finding.message})" if finding.message else ""
        text = f"{part or finding.subject}: {sides}{message}. Next: {check.remedy}"
        yield _command(kind, place, f"{check.id} {check.violation}", text)


def _accepted(check: Check) -> Iterator[str]:
    """Yield a notice for each finding that does not count: it stays visible."""
    for finding in check.findings:
        if finding.accepted is not None:
            place, _, part = finding.where.partition(": ")
            text = f"{part or finding.subject}: expected {finding.expected}, found {finding.found}"
            title = f"{check.id} {finding.accepted.kind}: {check.violation}"
            yield _command("notice", place, title, f"{accepted_text(finding.accepted)}. {text}")


def _command(kind: str, file: str, title: str, text: str) -> str:
    place = f"file={_property(file)}," if file else ""
    return f"::{kind} {place}title={_property(title)}::{_message(text)}"


def _message(text: str) -> str:
    return escape_line(text).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
