"""Each format says everything, in its own grammar, whatever text the findings hold."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given

from forgepack.render import FORMATS, render_report
from forgepack.schema_check import schema_faults
from forgepack.verify.findings.report import RULE_SET
from tests.render.reports import HOSTILE, make_report

SARIF_NAME = "shared/data/sarif-schema-2.1.0.json"
SARIF_SCHEMA = next((p / SARIF_NAME for p in Path(__file__).parents if (p / SARIF_NAME).is_file()), None)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")


@given(text=HOSTILE)
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_stays_text(name: str, text: str) -> None:
    """Output is valid UTF-8 without control characters, and has as many lines as for harmless text."""
    output = render_report(make_report(text), name, verbose=True).decode("utf-8")
    assert CONTROL.search(output) is None
    assert "\t" not in output
    if text:
        assert render_report(make_report("x"), name, verbose=True).count(b"\n") == output.count("\n")


@given(text=HOSTILE)
@pytest.mark.parametrize("name", FORMATS)
def test_no_text_becomes_a_command(name: str, text: str) -> None:
    """A CI runner that reads the output sees only the commands that the github format gives."""
    output = render_report(make_report(text), name, verbose=True).decode("utf-8")
    commands = [line for line in output.splitlines() if line.lstrip().startswith("::") or re.search(r"##\w*\[", line)]
    # 1 failure to read, 21 findings, 1 note, 1 warning, 4 accepted findings, 1 on rules that were left out,
    # 2 options; a check whose cause is told is not told again
    assert (31 if name == "github" else 0) == len(commands)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in commands)


@given(text=HOSTILE)
def test_github_properties_hold_no_separator(text: str) -> None:
    """In a command's properties, text can't add one."""
    output = render_report(make_report(text), "github").decode("utf-8")
    for line in output.splitlines():
        if line.startswith("::"):
            properties = line[2:].split("::")[0].split(" ", 1)[1]
            assert {"title"} <= {part.split("=")[0] for part in properties.split(",")} <= {"file", "title"}


@given(text=HOSTILE)
def test_sarif_has_one_run_and_one_result_a_finding(text: str) -> None:
    """Rules are declared, results point at them by id and index, fingerprints are there."""
    log = json.loads(render_report(make_report(text), "sarif"))
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = run["results"]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in results)
    accepted = ["LIC001", "LIC001", "LIC002", "LIC003", "LIC003"]
    expected = ["TAP001"] * 20 + ["TAP012", "HEAD001", "PATH006", *accepted]
    assert expected == [result["ruleId"] for result in results]
    assert all(result["partialFingerprints"] for result in results)
    assert not run["invocations"][0]["executionSuccessful"]


@given(text=HOSTILE)
def test_sarif_places_are_relative(text: str) -> None:
    """No place has a scheme, a drive or a leading slash."""
    log = json.loads(render_report(make_report(text), "sarif"))
    for result in log["runs"][0]["results"]:
        for location in result.get("locations", []):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\\", uri) is None


@pytest.mark.skipif(SARIF_SCHEMA is None, reason="the published SARIF schema is not at hand")
def test_sarif_follows_the_published_schema() -> None:
    """The log is valid against the standard's own schema."""
    import jsonschema

    assert SARIF_SCHEMA is not None
    schema = json.loads(SARIF_SCHEMA.read_bytes())
    for failures in (True, False):
        log = json.loads(render_report(make_report("a\x00: b", failures=failures), "sarif"))
        jsonschema.validators.validator_for(schema)(schema).validate(log)


@given(text=HOSTILE)
def test_junit_counts_agree(text: str) -> None:
    """A JUnit parser finds each outcome, and the totals that the root states."""
    root = ElementTree.fromstring(render_report(make_report(text), "junit"))
    for tag, count in (("testcase", 11), ("failure", 2), ("error", 2), ("skipped", 4), ("system-out", 3)):
        assert count == len(root.findall(f".//{tag}"))
    assert ("11", "2", "2", "4") == tuple(root.attrib[k] for k in ("tests", "failures", "errors", "skipped"))


def test_the_headline_of_a_failure_says_what_is_wrong() -> None:
    """The rule's own text, else that its title does not hold; never the title alone."""
    report = make_report("x")
    refusing = [check for check in report.checks if check.status == "fail" and report.refuses(check)]
    suites = ElementTree.fromstring(render_report(report, "junit"))
    assert [check.violation for check in refusing] == [one.attrib["message"] for one in suites.iter("failure")]
    text, annotations = (render_report(report, name).decode() for name in ("text", "github"))
    for check in refusing:
        assert f"does not hold: {check.title}" == check.violation
        assert "tensors are missing" == replace(check, fails="tensors are missing").violation
        assert check.violation in text
        assert check.violation.replace(":", "%3A") in annotations


@pytest.mark.parametrize("name", FORMATS)
def test_same_report_same_bytes(name: str) -> None:
    """Nothing of a clock, host or run is in any format."""
    assert render_report(make_report("x"), name) == render_report(make_report("x"), name)


def test_reports_name_their_rule_set() -> None:
    """JSON, SARIF and the long text say by which set of rules they were made; SARIF also since when each rule is."""
    report = make_report("x")
    assert RULE_SET == json.loads(render_report(report, "json"))["rule_set"]
    driver = json.loads(render_report(report, "sarif"))["runs"][0]["tool"]["driver"]
    assert {"ruleSet": RULE_SET} == driver["properties"]
    assert {1, RULE_SET} == {one["properties"]["since"] for one in driver["rules"]}
    line = f"rule set {RULE_SET}"
    assert line in render_report(report, "text", verbose=True).decode()
    assert line not in render_report(report, "text").decode()


def test_json_checks_tell_the_first_finding() -> None:
    """Each check has subject, expected and found; they are null without a finding."""
    report = json.loads(render_report(make_report("x"), "json"))
    checks = {check["id"]: check for check in report["checks"]}
    assert ("error", 4) == (report["verdict"], report["exit_code"])
    assert ("x", 30, 20) == (checks["TAP001"]["found"], checks["TAP001"]["count"], len(checks["TAP001"]["findings"]))
    assert checks["VOC001"]["subject"] is None
    assert {"pass": 1, "fail": 4, "not-evaluated": 3, "waived": 1, "known": 1, "not_selected": 1}.items() <= report[
        "counts"
    ].items()


def test_accepted_findings_are_told_in_each_format() -> None:
    """A waived finding is a SARIF suppression, a known one unchanged; both stay in JSON, JUnit skips their checks."""
    log = json.loads(render_report(make_report("x"), "sarif"))
    results = [r for r in log["runs"][0]["results"] if r["ruleId"].startswith("LIC")]
    assert [True, False, False, False, True] == ["suppressions" in result for result in results]
    states = ["new", "unchanged", "unchanged", "new", "new"]
    assert states == [result["baselineState"] for result in results]
    (suppression,) = results[0]["suppressions"]
    assert ("accepted", "x", {"owner": "x", "expires": "2030-01-01"}) == (
        suppression["status"],
        suppression["justification"],
        suppression["properties"],
    )
    raw = json.loads(render_report(make_report("x"), "json"))
    checks = {check["id"]: check for check in raw["checks"]}
    kinds = [(one["accepted"] or {}).get("kind") for one in checks["LIC003"]["findings"]]
    assert [None, "waived"] == kinds
    root = ElementTree.fromstring(render_report(make_report("x"), "junit"))
    skipped = [case.attrib["name"][:6] for case in root.iter("testcase") if case.find("skipped") is not None]
    assert ["LIC004", "LIC001", "LIC002", "LIC005"] == skipped


def test_reports_of_every_outcome_follow_the_schema() -> None:
    """JSON with accepted findings, a baseline and a selection is valid under schemas/report.schema.json."""
    raw = json.loads(render_report(make_report("x"), "json"))
    raw["inputs"] = {}
    assert () == schema_faults(raw, "report")


def test_text_groups_by_cause() -> None:
    """What follows from a root cause stands below it, and a long list is cut and counted."""
    lines = render_report(make_report("x", failures=False), "text").decode().splitlines()
    assert "FAIL, 1 rule not selected  profile x, depth header" == lines[0]
    assert "LIC001 error, 1 waived and 1 known: does not hold: a" in lines
    assert "baseline x (another drafter): 2 known, 1 gone" in lines
    assert "  … and 25 more of this kind" in lines
    assert any(line.startswith("  follows: PATH006") for line in lines)
    assert "  not evaluated because of it: HEAD001" in lines
    counts = "1 passed, 2 failed, 1 with warnings, 1 with notes, 2 not evaluated, 1 waived, 1 known"
    assert f"fail: 10 checks, {counts}, 1 rule not selected" == lines[-1]
