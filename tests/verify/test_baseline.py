"""Baselines: known findings do not refuse, new ones do, and what proves the pair is never known."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgepack.errors import UsageError
from forgepack.render import FORMATS, render_report
from forgepack.verify.findings.report import Finding
from tests.verify.accepting import BOTH, baseline_of, renamed, run_on, waiver_of, waiving
from tests.verify.running import check_of
from tests.verify.sabotage import CONFIG, both, put, remove, write


def test_known_findings_do_not_refuse_and_new_ones_do(pair: Path, tmp_path: Path) -> None:
    """What the baseline has is known and stays visible; what it lacks refuses; what is gone is told."""
    BOTH(pair)
    policy = baseline_of(run_on(pair), tmp_path)
    known = run_on(pair, policy=policy, strict=True)
    assert ("pass", "known", "known") == (
        known.verdict,
        check_of(known, "CTR005").status,
        check_of(known, "PATH006").status,
    )
    for name in FORMATS:
        assert "CTR005" in render_report(known, name).decode(), name
    both(remove("drafter/.DS_Store"), write("drafter/Thumbs.db", b"x"))(pair)
    found = run_on(pair, policy=policy, strict=True)
    assert ["PATH006"] == [check.id for check in found.checks if found.refuses(check)]
    assert found.baseline is not None
    assert ["PATH006"] == [one.rule for one in found.baseline.gone]
    for name in set(FORMATS) - {"junit"}:
        assert ".DS_Store" in render_report(found, name).decode(), name


def test_another_build_of_the_same_pair_has_the_same_findings(pair: Path, other: Path, tmp_path: Path) -> None:
    """Digests changed with the build; the finding is known all the same, and the report says what differs."""
    renamed(pair)
    policy = baseline_of(run_on(pair), tmp_path)
    rebuilt = Path(shutil.copytree(other, tmp_path / "rebuilt"))
    renamed(rebuilt)
    report = run_on(rebuilt, policy=policy)
    assert "pass" == report.verdict
    assert report.baseline is not None
    assert ("drafter",) == report.baseline.other_inputs


@pytest.mark.parametrize(
    ("field", "value", "same"),
    [
        ("found", "sha256 " + "b" * 64, True),
        ("expected", "content " + "c" * 64 + " of 3 parts", False),
        ("found", "sha256 " + "b" * 64 + " x", False),
        ("where", "export/" + "a" * 10, False),
        ("subject", "another", False),
        ("message", "3 of 4", False),
    ],
)
def test_a_finding_is_known_by_all_but_its_digests(field: str, value: str, same: bool) -> None:
    """Another digest at the same place is the same finding; another place, number or word is a new one."""
    texts = {"subject": "file", "where": "export/x", "expected": "content " + "0" * 64, "found": "sha256 " + "a" * 64}
    one = Finding(**texts, accepted=None)
    other = replace(one, **{field: value})  # type: ignore[arg-type]
    assert same == (one.key("LIC006") == other.key("LIC006"))
    assert one.key("LIC006") != one.key("LIC005")
    assert one.digest("LIC006") != other.digest("LIC006")


def test_findings_beyond_the_shown_ones_are_known(pair: Path, tmp_path: Path) -> None:
    """A report holds twenty findings of a rule; the others are known by their keys, and one more is new."""
    for number in range(30):
        write(f"target/coreai/._extra{number:02d}.bin", b"x")(pair)
    report = run_on(pair, strict=True)
    assert (30, 20) == (check_of(report, "PATH006").count, len(check_of(report, "PATH006").findings))
    policy = baseline_of(report, tmp_path)
    known = run_on(pair, policy=policy, strict=True)
    assert ("pass", 30) == (known.verdict, check_of(known, "PATH006").known)
    again = baseline_of(known, tmp_path)
    assert "pass" == run_on(pair, policy=again, strict=True).verdict
    write("target/coreai/._extra30.bin", b"x")(pair)
    more = check_of(run_on(pair, policy=policy, strict=True), "PATH006")
    assert ("fail", 1, "._extra30.bin" in more.findings[0].where) == (more.status, more.counting, True)


def test_what_proves_the_pair_is_never_known(pair: Path, tmp_path: Path) -> None:
    """A baseline does not make a wrong pair right, whatever it lists."""
    put(CONFIG, "hidden_size", value=64)(pair)
    report = run_on(pair)
    assert "fail" == run_on(pair, policy=baseline_of(report, tmp_path)).verdict


def test_a_waived_finding_of_a_baseline_is_not_known(pair: Path, tmp_path: Path) -> None:
    """Or an expired waiver would live on in it; a known one stays known through a chain of baselines."""
    renamed(pair)
    waived = run_on(pair, policy=waiving(tmp_path, waiver_of(run_on(pair), "CTR005")))
    assert "fail" == run_on(pair, policy=baseline_of(waived, tmp_path)).verdict


def older(raw: dict[str, Any]) -> None:
    """Take away what reports of earlier versions do not have."""
    for key in ("exit_zero", "complete", "selection", "baseline"):
        del raw[key]
    del raw["counts"]["known"], raw["counts"]["not_selected"]
    for check in raw["checks"]:
        for key in ("waived", "known", "waivable", "selected"):
            del check[key]
        for finding in check["findings"]:
            del finding["digest"], finding["accepted"]


def test_an_older_report_is_a_baseline(pair: Path, tmp_path: Path) -> None:
    """Reports of the same schema version without the newer fields are read."""
    renamed(pair)
    assert "pass" == run_on(pair, policy=baseline_of(run_on(pair), tmp_path, older)).verdict


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["profile"].update(name="other"), "another profile"),
        (lambda raw: raw.update(inputs={"bundle": {"path": "x", "digests": {}}}), "another kind of subject"),
        (lambda raw: raw.pop("checks"), "report of a verification is not valid"),
        (lambda raw: raw.update(schema_version=3), "newer version"),
        (lambda raw: raw.clear(), "not a report"),
    ],
)
def test_a_baseline_of_something_else_is_a_usage_error(
    base: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    """Another profile, a release, another file: no gate passes by it."""
    with pytest.raises(UsageError, match=words):
        run_on(base, policy=baseline_of(run_on(base), tmp_path, change))
