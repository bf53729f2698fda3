"""A report as SARIF 2.1.0: one run, every rule declared, one result a finding.

A required check that was not evaluated is a result, too: a gate that reads results alone must not take it for a
pass. Places are relative URIs below the role of their part (``drafter/config.json``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from forgepack.canonical import dump_shown
from forgepack.escaping import escape_line
from forgepack.render.accepted import origin_text, partial_text
from forgepack.verify.findings.report import Check, Finding, Report
from forgepack.verify.policy.rule import AREAS, Rule, all_rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "forgepackFinding/v1"


def render(report: Report) -> bytes:
    """Return the report as canonical SARIF JSON."""
    return dump_shown(sarif_json(report))


def sarif_json(report: Report) -> dict[str, Any]:
    """Return the report as a SARIF log with one run."""
    rules = all_rules()
    driver = {
        "name": "forgepack",
        "version": report.version,
        "properties": {"ruleSet": report.rule_set},
        "rules": [_rule(one) for one in rules],
    }
    places = {one.id: number for number, one in enumerate(rules)}
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(report)],
        "results": [result for check in report.checks for result in _results(check, report, places)],
        "properties": {
            "verdict": report.verdict,
            "profile": escape_line(report.profile),
            "depth": report.depth.label,
            "complete": report.not_selected == 0,
            "options": [origin_text(one) for one in report.options],
            **_terms(report),
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _terms(report: Report) -> dict[str, Any]:
    """Return what was left out, and what is gone since the baseline, where there is something to say."""
    terms: dict[str, Any] = {}
    if report.narrowed is not None:
        terms["notSelected"] = [check.id for check in report.checks if not check.selected]
    if report.baseline is not None:
        terms["gone"] = [f"{one.rule} {escape_line(one.where)}" for one in report.baseline.gone]
    return terms


def _rule(one: Rule) -> dict[str, Any]:
    return {
        "id": one.id,
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": f"{' '.join(one.demand.split())} {one.why}."},
        "help": {"text": one.remedy},
        "defaultConfiguration": {"level": one.severity},
        "properties": {
            "area": AREAS[one.area],
            "depth": one.depth.label,
            "waivable": one.waivable,
            "since": one.since,
        },
    }


def _invocation(report: Report) -> dict[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": _sentence(failure.what, failure.where, failure.expected, failure.found)},
            "properties": {"exit_code": failure.exit_code},
        }
        for failure in report.failures
    ]
    return {
        "executionSuccessful": report.verdict != "error",
        "exitCode": report.exit_code,
        "toolExecutionNotifications": notes,
        **_partial(report),
    }


def _partial(report: Report) -> dict[str, Any]:
    """Return the notification that rules were left out; a run of all rules has none."""
    if not report.not_selected:
        return {}
    text = f"{partial_text(report)}: this is not a verdict on the whole"
    return {"toolConfigurationNotifications": [{"level": "warning", "message": {"text": text}}]}


def _results(check: Check, report: Report, places: dict[str, int]) -> Iterator[dict[str, Any]]:
    base = {"ruleId": check.id, "ruleIndex": places[check.id], "kind": "fail"}
    if check.status == "not-evaluated" and report.refuses(check):
        finding = Finding(subject=check.title, expected="an evaluation", found=f"none: {check.reason}")
        yield {**base, "level": "error", **_body(check, finding), **_acceptance(report, finding)}
    level = "error" if report.refuses(check) else check.severity
    for finding in check.findings:
        yield {**base, "level": level, **_body(check, finding), **_acceptance(report, finding)}


def _acceptance(report: Report, finding: Finding) -> dict[str, Any]:
    """Return how SARIF says that a finding is waived (a suppression) or known (unchanged since the baseline)."""
    out: dict[str, Any] = {}
    accepted = finding.accepted
    if report.baseline is not None:
        known = accepted is not None and accepted.kind == "known"
        out["baselineState"] = "unchanged" if known else "new"
    if accepted is not None and accepted.kind == "waived":
        properties = {"owner": escape_line(accepted.owner), "expires": accepted.expires}
        out["suppressions"] = [
            {
                "kind": "external",
                "status": "accepted",
                "justification": escape_line(accepted.reason),
                "properties": properties,
            }
        ]
    return out


def _body(check: Check, finding: Finding) -> dict[str, Any]:
    text = _sentence(finding.message or check.violation, finding.where, finding.expected, finding.found)
    body: dict[str, Any] = {
        "message": {"text": text},
        "partialFingerprints": {FINGERPRINT: finding.fingerprint(check.id)},
        "properties": {"digest": finding.digest(check.id)},
    }
    path, _, part = finding.where.partition(": ")
    if path:
        location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}}}
        if part:
            location["logicalLocations"] = [{"fullyQualifiedName": escape_line(part)}]
        body["locations"] = [location]
    return body


def _uri(path: str) -> str:
    """Return a path as a relative URI reference; a colon in its first segment would read as a scheme."""
    return quote(escape_line(path).lstrip("/"), safe="/")


def _sentence(what: str, where: str, expected: str, found: str) -> str:
    fields = {"where": where, "expected": expected, "found": found}
    return escape_line("; ".join([what, *(f"{name}: {value}" for name, value in fields.items() if value)]))
