"""A report as JUnit XML: one suite an area, one case a check, so that CI servers show it as a test run.

Refusals are failures, required checks that were not evaluated and unreadable inputs are errors. Checks that were not
selected or not evaluated otherwise, and those whose findings are all waived or known, are skipped. Warnings that do
not refuse, and accepted findings beside others, are listed in system-out.
"""

from __future__ import annotations

from xml.etree import ElementTree

from forgepack.escaping import escape_line
from forgepack.render.accepted import accepted_lines, partial_text
from forgepack.verify.findings.report import Check, Report
from forgepack.verify.policy.rule import AREAS

Element = ElementTree.Element


def render(report: Report) -> bytes:
    """Return the report as indented UTF-8 XML."""
    partial = f", {partial_text(report)}" if report.not_selected else ""
    word = ", selection" if report.verdict == "selection" else ""
    root = Element("testsuites", {"name": f"forgepack{word}{partial}"})
    for area in AREAS:
        checks = [check for check in report.checks if check.area == area]
        if checks:
            _suite(root, area, [_case(report, check) for check in checks])
    if report.failures:
        _suite(root, "inputs", [_failure_case(report, number) for number in range(len(report.failures))])
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    body: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=False)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + body + b"\n"


def _suite(root: Element, name: str, cases: list[Element]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"forgepack.{name}", "tests": str(len(cases))})
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)


def _case(report: Report, check: Check) -> Element:
    case = Element("testcase", {"classname": f"forgepack.{check.area}", "name": f"{check.id} {check.title}"})
    if check.status == "fail":
        tag = "failure" if report.refuses(check) else "system-out"
        _tell(case, tag, check.severity, _text(check))
        if tag == "failure" and check.counting < check.count:
            _tell(case, "system-out", check.severity, "\n".join(accepted_lines(check)))
    elif check.status == "not-evaluated" and report.refuses(check):
        _tell(case, "error", "not-evaluated", escape_line(check.reason))
    elif check.status == "not-evaluated":
        ElementTree.SubElement(case, "skipped", {"message": escape_line(check.reason)})
    elif check.status in ("waived", "known"):
        lines = list(accepted_lines(check))
        ElementTree.SubElement(case, "skipped", {"message": lines[0]}).text = "\n".join(lines)
    return case


def _failure_case(report: Report, number: int) -> Element:
    failure = report.failures[number]
    case = Element("testcase", {"classname": "forgepack.inputs", "name": escape_line(failure.where or failure.what)})
    _tell(case, "error", f"exit {failure.exit_code}", escape_line(f"{failure.what} {failure.found}".strip()))
    return case


def _tell(case: Element, tag: str, kind: str, text: str) -> None:
    attributes = {} if tag == "system-out" else {"type": kind, "message": text.split("\n", maxsplit=1)[0]}
    ElementTree.SubElement(case, tag, attributes).text = text


def _text(check: Check) -> str:
    """Return what is wrong, which is the message of a failure, then each finding, why it matters and the remedy."""
    lines = [escape_line(check.violation)]
    held = check.held(None)
    for finding in held:
        place = escape_line(finding.where or finding.subject)
        sides = f"expected {escape_line(finding.expected)}, found {escape_line(finding.found)}"
        message = f" ({escape_line(finding.message)})" if finding.message else ""
        lines.append(f"{place}: {sides}{message}")
    if check.counting > len(held):
        lines.append(f"and {check.counting - len(held)} more")
    return "\n".join([*lines, f"why: {check.why}", f"next: {check.remedy}"])
