"""Words that every format shares: findings that do not count, rules that were left out, what is gone."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.verify.findings.report import Accepted, Check, Chosen, Report


def accepted_text(accepted: Accepted) -> str:
    """Return why a finding does not count, as one line."""
    if accepted.kind == "known":
        return "known from the baseline"
    return escape_line(f"waived until {accepted.expires} by {accepted.owner}: {accepted.reason}")


def accepted_lines(check: Check) -> Iterator[str]:
    """Yield one line for each held finding that does not count, and how many more there are."""
    held = [finding for finding in check.findings if finding.accepted is not None]
    for finding in held:
        assert finding.accepted is not None
        sides = f"expected {finding.expected}, found {finding.found}"
        yield f"{accepted_text(finding.accepted)}: {escape_line(f'{finding.where or finding.subject}: {sides}')}"
    more = check.waived + check.known - len(held)
    if more:
        yield f"and {more} more that are waived or known"


def partial_text(report: Report) -> str:
    """Return how many rules were left out by name."""
    return f"{report.not_selected} {'rule' if report.not_selected == 1 else 'rules'} not selected"


def origin_text(one: Chosen) -> str:
    """Return one option that has not its default, with where it was set."""
    place = f" {escape_line(one.place)}" if one.place else ""
    return f"option {one.name} = {escape_line(one.value)} (from {'the ' if not one.place else ''}{one.source}{place})"


def baseline_lines(report: Report) -> Iterator[str]:
    """Yield what the baseline changes: which one it is, how many findings are known, what is gone since."""
    result = report.baseline
    if result is None:
        return
    others = f" (another {', another '.join(result.other_inputs)})" if result.other_inputs else ""
    known = sum(check.known for check in report.checks)
    yield f"baseline {escape_line(result.path)}{others}: {known} known, {len(result.gone)} gone"
    for one in result.gone:
        yield f"  gone: {one.rule} {escape_line(one.where)}".rstrip()
