"""Waivers: findings that an owner accepts until a day, and what nobody can accept."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forgepack.errors import UsageError
from forgepack.render import FORMATS, render_report
from forgepack.verify.policy.acceptance import Policy
from forgepack.verify.policy.rule import Rule, all_rules
from forgepack.verify.policy.selection import Selection
from forgepack.verify.policy.waivers import read_waivers
from tests.verify.accepting import TODAY, junk, renamed, run_on, waiver_of, waiving
from tests.verify.factory import EXPORT
from tests.verify.running import check_of, explain_all, failed, roots, told
from tests.verify.sabotage import both, remove, write


def test_a_waived_finding_stays_visible_and_does_not_refuse(pair: Path, tmp_path: Path) -> None:
    """Rule, place and digest must fit; then the check is waived, and every format still tells the finding."""
    renamed(pair)
    report = run_on(pair)
    assert ["CTR005"] == roots(report)
    policy = waiving(tmp_path, waiver_of(report, "CTR005"))
    waived = run_on(pair, policy=policy)
    assert ("pass", 0, "waived") == (waived.verdict, waived.exit_code, check_of(waived, "CTR005").status)
    for name in FORMATS:
        text = render_report(waived, name).decode()
        assert all(words in text for words in ("CTR005", "known to legal", "release@example.org", "2030-06-15")), name


@pytest.mark.parametrize("key", ["rule", "subject", "digest"])
def test_a_waiver_fits_exactly_or_not_at_all(pair: Path, tmp_path: Path, key: str) -> None:
    """Another rule, place or digest waives nothing, and the waiver that meets no finding is told."""
    renamed(pair)
    report = run_on(pair)
    other: Any = {"rule": "LIC006", "subject": "export/", "digest": "0" * 64}[key]
    found = run_on(pair, policy=waiving(tmp_path, waiver_of(report, "CTR005") | {key: other}))
    assert ["CTR005"] == roots(found)
    assert ["CTR071"] == [check.id for check in found.failed("warning")]


def test_a_waiver_ends_with_the_finding_that_it_was_given_for(pair: Path, tmp_path: Path) -> None:
    """Where the finding says something else now, it counts, and the report names its new digest."""
    renamed(pair)
    policy = waiving(tmp_path, waiver_of(run_on(pair), "CTR005"))
    renamed(pair, "y")
    found = run_on(pair, policy=policy)
    assert ["CTR005"] == roots(found)
    assert waiver_of(found, "CTR005")["digest"] in told(found, "CTR071")


@pytest.mark.parametrize(("days", "good"), [(-1, True), (0, True), (1, False)])
def test_a_waiver_holds_through_its_last_day(pair: Path, tmp_path: Path, days: int, good: bool) -> None:
    """On the day after, the waiver is a finding of its own and the waived one counts again."""
    renamed(pair)
    today = TODAY + datetime.timedelta(days=days)
    report = run_on(pair, policy=waiving(tmp_path, waiver_of(run_on(pair), "CTR005"), today=today))
    assert ([] if good else ["CTR005", "CTR070"]) == roots(report), explain_all(report)


def test_expired_waivers_are_told_even_without_a_finding(pair: Path, tmp_path: Path) -> None:
    """They are told once, as expired, not as unused."""
    broken = Path(pair.parent / "broken")
    pair.rename(broken)
    renamed(broken)
    waiver = waiver_of(run_on(broken), "CTR005", expires="2000-01-01")
    renamed(broken, EXPORT)
    report = run_on(broken, policy=waiving(tmp_path, waiver))
    assert (["CTR070"], []) == (roots(report), report.failed("warning"))


def test_an_unused_waiver_is_told_where_its_rule_was_evaluated(base: Path, tmp_path: Path) -> None:
    """A rule that needs a greater depth, or was not selected, does not make its waivers useless."""
    unmet = {"subject": "x", "digest": "0" * 64, "reason": "r", "owner": "o", "expires": "2031-01-01"}
    for ident, selection, told_of in (
        ("LIC006", Selection(), True),
        ("TOK003", Selection(), False),
        ("LIC006", Selection(ignore=("LIC006",)), False),
    ):
        policy = waiving(tmp_path, {"rule": ident, **unmet})
        report = run_on(base, policy=Policy(waivers=policy.waivers, selection=selection), strict=True)
        assert (["CTR071"] if told_of else []) == [check.id for check in report.failed("warning")]
        assert (1 if told_of else 0) == report.exit_code


def test_one_of_several_findings_is_waived(pair: Path, tmp_path: Path) -> None:
    """The others count: a check is waived only when nothing of it is left."""
    both(junk, write("target/.DS_Store", b"x"), write("target/model/.DS_Store", b"x"))(pair)
    report = run_on(pair, strict=True)
    count = check_of(report, "PATH006").count
    assert count > 1
    found = run_on(pair, policy=waiving(tmp_path, waiver_of(report, "PATH006")), strict=True)
    check = check_of(found, "PATH006")
    assert ("fail", count, 1, count - 1) == (check.status, check.count, check.waived, check.counting)
    assert None is check.findings[0].accepted
    everything = [waiver_of(report, "PATH006", number) for number in range(count)]
    assert "pass" == run_on(pair, policy=waiving(tmp_path, *everything), strict=True).verdict


def test_what_follows_from_a_waived_finding_is_excused(pair: Path, tmp_path: Path) -> None:
    """A missing licence that was waived leaves the rule on its text unevaluated: that refuses no more."""
    remove("drafter/LICENSE")(pair)
    report = run_on(pair)
    assert {"LIC001"} == failed(report)
    assert "pass" == run_on(pair, policy=waiving(tmp_path, waiver_of(report, "LIC001"))).verdict
    # The bytes of the package are still those of its sidecar, or not: that is never waived.
    deeper = run_on(pair, policy=waiving(tmp_path, waiver_of(report, "LIC001")), depth="hash")
    assert "PKG014" in failed(deeper)


@pytest.mark.parametrize("one", all_rules(), ids=lambda one: one.id)
def test_rules_that_prove_the_pair_are_never_waived(tmp_path: Path, one: Rule) -> None:
    """A waiver for one is refused with its place; every other rule's findings can be waived."""
    waiver = GOOD | {"rule": one.id}
    if one.waivable:
        assert waiving(tmp_path, waiver).waivers is not None
        return
    with pytest.raises(UsageError, match="never waived") as caught:
        waiving(tmp_path, waiver)
    assert (caught.value.where or "").endswith("waiver[0].rule")


def test_errors_that_may_be_waived_are_few() -> None:
    """Licences, names, portability and bounds: nothing that says the pair or its bytes are others."""
    waivable = {one.id for one in all_rules() if one.severity == "error" and one.waivable}
    licences = {"LIC001", "LIC002", "LIC003", "LIC004", "LIC005"}
    assert licences | {"CTR005", "CTR042", "CTR043", "NUM005", "NUM021", "PATH005"} == waivable
    assert {"CTR071"} == {one.id for one in all_rules() if one.severity != "error" and not one.waivable}


GOOD = {
    "rule": "LIC006",
    "subject": "x",
    "digest": "0" * 64,
    "reason": "r",
    "owner": "o",
    "expires": "2031-01-01",
}
MALFORMED: dict[str, tuple[str | bytes, str]] = {
    "no TOML": ("[[waiver]\n", "parsed"),
    "no UTF-8": (b"\xc3\x28", "parsed"),
    "byte order mark": (b"\xef\xbb\xbf", "without BOM"),
    "UTF-16": (b"\xff\xfe", "that of UTF-16"),
    "a key twice": ("waiver = []\nwaiver = []\n", "parsed"),
    "no list": ("", "waiver"),
    "a newer version": ('schema = "forgepack.waivers/9"\nwaiver = []\n', "newer version"),
    "another kind": ('schema = "forgepack.deny/1"\nwaiver = []\n', "not a waivers file"),
    "an unknown key": ("waiver = []\nwaivers = 1\n", "did you mean waiver?"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_a_usage_error(tmp_path: Path, name: str) -> None:
    """It is told with file and place, and nothing is waived by a part of it."""
    data, words = MALFORMED[name]
    path = tmp_path / "waivers.toml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(UsageError) as caught:
        read_waivers(path, TODAY)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


ENTRIES: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"without {key}": lambda raw, key=key: raw.pop(key) for key in GOOD},  # type: ignore[misc]
    **{f"{key} of a wrong type": lambda raw, key=key: raw.update({key: 1}) for key in GOOD},  # type: ignore[misc]
    "no such rule": lambda raw: raw.update(rule="LIC999"),
    "a prefix for a rule": lambda raw: raw.update(rule="LIC"),
    "a short digest": lambda raw: raw.update(digest="0" * 32),
    "a blank reason": lambda raw: raw.update(reason=" \n"),
    "a blank owner": lambda raw: raw.update(owner="\t"),
    "no day": lambda raw: raw.update(expires="2031-02-30"),
    "never": lambda raw: raw.update(expires="never"),
    "a time": lambda raw: raw.update(expires="2031-01-01T00:00:00"),
    "an unknown key": lambda raw: raw.update(until="2031-01-01"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_malformed_waiver_is_a_usage_error(tmp_path: Path, name: str) -> None:
    """Each entry is whole or refused, by its number."""
    raw = dict(GOOD)
    ENTRIES[name](raw)
    with pytest.raises(UsageError) as caught:
        waiving(tmp_path, GOOD | {"rule": "LIC005"}, raw)
    assert "waiver[1]" in str(caught.value)


def test_toml_dates_and_texts_are_one(tmp_path: Path) -> None:
    """A day may be a TOML date or a text; the same finding is not waived twice."""
    entry = "\n".join(f'{key} = "{value}"' for key, value in GOOD.items() if key != "expires")
    path = tmp_path / "waivers.toml"
    path.write_text(f"[[waiver]]\n{entry}\nexpires = 2031-01-01\n")
    assert datetime.date(2031, 1, 1) == read_waivers(path, TODAY).waivers[0].expires
    path.write_text(f"[[waiver]]\n{entry}\nexpires = 2031-01-01\n" * 2)
    with pytest.raises(UsageError, match="waived twice"):
        read_waivers(path, TODAY)
