"""A report as one JSON object: the form that other programs read (schemas/report.schema.json).

Equal reports give equal bytes. Every text is escaped, so that the object stays valid UTF-8 and can't drive a
terminal that shows it.
"""

from __future__ import annotations

from typing import Any

from forgepack.canonical import dump_shown
from forgepack.escaping import escape_line
from forgepack.verify.findings.report import (
    SEVERITIES,
    STATUSES,
    Accepted,
    BaselineResult,
    Check,
    Chosen,
    Failure,
    Finding,
    Identity,
    Report,
)
from forgepack.verify.policy.baseline import KIND

_LONGEST = 500


def report_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "schema_version": KIND.version,
        "tool": "forgepack",
        "version": report.version,
        "profile": {"name": escape_line(report.profile), "sha256": report.profile_digest or None},
        "rule_set": report.rule_set,
        "depth": report.depth.label,
        "strict": report.strict,
        "exit_zero": report.exit_zero,
        "complete": report.not_selected == 0,
        "selection": _selection(report),
        "baseline": _baseline(report.baseline),
        "options": [_option(one) for one in report.options],
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "inputs": {one.role: _input(one) for one in report.inputs},
        "counts": {
            "checks": len(report.checks),
            **{status: report.count(status) for status in STATUSES},
            **{f"failed_{severity}": len(report.failed(severity)) for severity in SEVERITIES},
            "not_selected": report.not_selected,
        },
        "errors": [_failure(failure) for failure in report.failures],
        "checks": [_check(check) for check in report.checks],
    }


def render(report: Report) -> bytes:
    """Return the report as canonical JSON."""
    return dump_shown(report_json(report))


def _input(one: Identity) -> dict[str, Any]:
    return {"path": escape_line(one.path), "digests": dict(one.digests)}


def _option(one: Chosen) -> dict[str, str]:
    value, place = escape_line(one.value)[:_LONGEST], escape_line(one.place)
    return {"name": one.name, "value": value, "source": one.source, "place": place}


def _selection(report: Report) -> dict[str, Any] | None:
    """Return how rules were selected, null where all were."""
    narrowed = report.narrowed
    if narrowed is None:
        return None
    return {
        "select": list(narrowed.select),
        "ignore": list(narrowed.ignore),
        "not_selected": [check.id for check in report.checks if not check.selected],
        "never_ignored": list(narrowed.kept),
    }


def _baseline(result: BaselineResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "path": escape_line(result.path),
        "sha256": result.sha256,
        "gone": [{"rule": one.rule, "where": escape_line(one.where)} for one in result.gone],
        "other_inputs": list(result.other_inputs),
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "what": escape_line(failure.what),
        "where": escape_line(failure.where),
        "expected": escape_line(failure.expected),
        "found": escape_line(failure.found),
        "remedy": escape_line(failure.hint),
        "code": failure.code,
        "exit_code": failure.exit_code,
    }


def _check(check: Check) -> dict[str, Any]:
    """Return one check; subject, expected and found are those of its first finding, null without one."""
    first = check.findings[0] if check.findings else None
    return {
        "id": check.id,
        "title": check.title,
        "area": check.area,
        "severity": check.severity,
        "depth": check.depth.label,
        "status": check.status,
        "required": check.required,
        "subject": escape_line(first.subject) if first else None,
        "expected": escape_line(first.expected) if first else None,
        "found": escape_line(first.found) if first else None,
        "why": check.why,
        "remedy": check.remedy,
        "reason": escape_line(check.reason) or None,
        "cause": check.cause,
        "count": check.count,
        "waived": check.waived,
        "known": check.known,
        "waivable": check.waivable,
        "selected": check.selected,
        **({"more": list(check.more)} if check.more else {}),
        "findings": [_finding(finding, check.id) for finding in check.findings],
    }


def _finding(finding: Finding, rule: str) -> dict[str, Any]:
    return {
        "subject": escape_line(finding.subject),
        "expected": escape_line(finding.expected),
        "found": escape_line(finding.found),
        "where": escape_line(finding.where),
        "message": escape_line(finding.message),
        "fingerprint": finding.fingerprint(rule),
        "digest": finding.digest(rule),
        "accepted": _accepted(finding.accepted),
    }


def _accepted(accepted: Accepted | None) -> dict[str, Any] | None:
    """Return why a finding does not count, null where it does."""
    if accepted is None:
        return None
    if accepted.kind == "known":
        return {"kind": "known"}
    return {
        "kind": "waived",
        "reason": escape_line(accepted.reason),
        "owner": escape_line(accepted.owner),
        "expires": accepted.expires,
    }
