"""What a gate's owner accepts: waivers, a baseline, a selection of rules, exit code 0; and what nobody can accept."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgepack.canonical import dump_canonical
from forgepack.errors import UsageError
from forgepack.render import FORMATS, render_report
from forgepack.render.json_report import report_json
from forgepack.verify.baseline import read_baseline
from forgepack.verify.engine import verify
from forgepack.verify.report import Depth, Finding, Report
from forgepack.verify.rule import Rule, all_rules, find_rule
from forgepack.verify.selection import Selection, parse_selection
from forgepack.verify.sources import find_sources
from forgepack.verify.subject import Pair
from forgepack.verify.terms import Terms
from forgepack.verify.waivers import read_waivers
from tests.verify.factory import EXPORT, tiny_profile
from tests.verify.running import check_of, explain_all, failed, roots, told
from tests.verify.sabotage import CONFIG, both, put, remove, write

TODAY = datetime.date(2030, 6, 15)
IDS = [one.id for one in all_rules()]


def renamed(root: Path, name: str = "x") -> None:
    """Give the export's folder another name: an error that may be waived (CTR005)."""
    (folder,) = (root / "target/export").iterdir()
    folder.rename(root / "target/export" / name)


junk = write("drafter/.DS_Store", b"x")
BOTH = both(renamed, junk)


def run_on(root: Path, *, terms: Terms | None = None, depth: str = "header", strict: bool = False) -> Report:
    sources = find_sources(root / "drafter", root / "target")
    return verify(Pair(sources, tiny_profile(), Depth[depth.upper()], seconds=60), strict=strict, terms=terms)


def waiver_of(report: Report, ident: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the waiver that a report's finding needs, with keys replaced."""
    check = check_of(report, ident)
    finding = report_json(report)["checks"][IDS.index(ident)]["findings"][number]
    assert check.findings[number].digest(ident) == finding["digest"]
    texts = {"reason": "known to legal", "owner": "release@example.org", "expires": "2030-06-15"}
    return {"rule": ident, "subject": finding["where"], "digest": finding["digest"], **texts, **changes}


def waiving(path: Path, *waivers: dict[str, Any], today: datetime.date = TODAY) -> Terms:
    file = path / "waivers.json"
    file.write_text(json.dumps({"waiver": list(waivers)}))
    return Terms(waivers=read_waivers(file, today))


def test_a_waived_finding_stays_visible_and_does_not_refuse(pair: Path, tmp_path: Path) -> None:
    """Rule, place and digest must fit; then the check is waived, and every format still tells the finding."""
    renamed(pair)
    report = run_on(pair)
    assert ["CTR005"] == roots(report)
    terms = waiving(tmp_path, waiver_of(report, "CTR005"))
    waived = run_on(pair, terms=terms)
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
    found = run_on(pair, terms=waiving(tmp_path, waiver_of(report, "CTR005") | {key: other}))
    assert ["CTR005"] == roots(found)
    assert ["CTR071"] == [check.id for check in found.failed("warning")]


def test_a_waiver_ends_with_the_finding_that_it_was_given_for(pair: Path, tmp_path: Path) -> None:
    """Where the finding says something else now, it counts, and the report names its new digest."""
    renamed(pair)
    terms = waiving(tmp_path, waiver_of(run_on(pair), "CTR005"))
    renamed(pair, "y")
    found = run_on(pair, terms=terms)
    assert ["CTR005"] == roots(found)
    assert waiver_of(found, "CTR005")["digest"] in told(found, "CTR071")


@pytest.mark.parametrize(("days", "good"), [(-1, True), (0, True), (1, False)])
def test_a_waiver_holds_through_its_last_day(pair: Path, tmp_path: Path, days: int, good: bool) -> None:
    """On the day after, the waiver is a finding of its own and the waived one counts again."""
    renamed(pair)
    today = TODAY + datetime.timedelta(days=days)
    report = run_on(pair, terms=waiving(tmp_path, waiver_of(run_on(pair), "CTR005"), today=today))
    assert ([] if good else ["CTR005", "CTR070"]) == roots(report), explain_all(report)


def test_expired_waivers_are_told_even_without_a_finding(pair: Path, tmp_path: Path) -> None:
    """They are told once, as expired, not as unused."""
    broken = Path(pair.parent / "broken")
    pair.rename(broken)
    renamed(broken)
    waiver = waiver_of(run_on(broken), "CTR005", expires="2000-01-01")
    renamed(broken, EXPORT)
    report = run_on(broken, terms=waiving(tmp_path, waiver))
    assert (["CTR070"], []) == (roots(report), report.failed("warning"))


def test_an_unused_waiver_is_told_where_its_rule_was_evaluated(base: Path, tmp_path: Path) -> None:
    """A rule that needs a greater depth, or was not selected, does not make its waivers useless."""
    unmet = {"subject": "x", "digest": "0" * 64, "reason": "r", "owner": "o", "expires": "2031-01-01"}
    for ident, selection, told_of in (
        ("LIC006", Selection(), True),
        ("TOK003", Selection(), False),
        ("LIC006", Selection(ignore=("LIC006",)), False),
    ):
        terms = waiving(tmp_path, {"rule": ident, **unmet})
        report = run_on(base, terms=Terms(waivers=terms.waivers, selection=selection), strict=True)
        assert (["CTR071"] if told_of else []) == [check.id for check in report.failed("warning")]
        assert (1 if told_of else 0) == report.exit_code


def test_one_of_several_findings_is_waived(pair: Path, tmp_path: Path) -> None:
    """The others count: a check is waived only when nothing of it is left."""
    both(junk, write("target/.DS_Store", b"x"), write("target/model/.DS_Store", b"x"))(pair)
    report = run_on(pair, strict=True)
    count = check_of(report, "PATH006").count
    assert count > 1
    found = run_on(pair, terms=waiving(tmp_path, waiver_of(report, "PATH006")), strict=True)
    check = check_of(found, "PATH006")
    assert ("fail", count, 1, count - 1) == (check.status, check.count, check.waived, check.counting)
    assert None is check.findings[0].accepted
    everything = [waiver_of(report, "PATH006", number) for number in range(count)]
    assert "pass" == run_on(pair, terms=waiving(tmp_path, *everything), strict=True).verdict


def test_what_follows_from_a_waived_finding_is_excused(pair: Path, tmp_path: Path) -> None:
    """A missing licence that was waived leaves the rule on its text unevaluated: that refuses no more."""
    remove("drafter/LICENSE")(pair)
    report = run_on(pair)
    assert {"LIC001"} == failed(report)
    assert "pass" == run_on(pair, terms=waiving(tmp_path, waiver_of(report, "LIC001"))).verdict
    # The bytes of the package are still those of its sidecar, or not: that is never waived.
    deeper = run_on(pair, terms=waiving(tmp_path, waiver_of(report, "LIC001")), depth="hash")
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
    "no UTF-8": (b"\xff\xfe", "parsed"),
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


def baseline_of(report: Report, path: Path, change: Callable[[dict[str, Any]], object] | None = None) -> Terms:
    raw = report_json(report)
    if change is not None:
        change(raw)
    (path / "baseline.json").write_bytes(dump_canonical(raw))
    return Terms(baseline=read_baseline(path / "baseline.json"))


def test_known_findings_do_not_refuse_and_new_ones_do(pair: Path, tmp_path: Path) -> None:
    """What the baseline has is known and stays visible; what it lacks refuses; what is gone is told."""
    BOTH(pair)
    terms = baseline_of(run_on(pair), tmp_path)
    known = run_on(pair, terms=terms, strict=True)
    assert ("pass", "known", "known") == (
        known.verdict,
        check_of(known, "CTR005").status,
        check_of(known, "PATH006").status,
    )
    for name in FORMATS:
        assert "CTR005" in render_report(known, name).decode(), name
    both(remove("drafter/.DS_Store"), write("drafter/Thumbs.db", b"x"))(pair)
    found = run_on(pair, terms=terms, strict=True)
    assert ["PATH006"] == [check.id for check in found.checks if found.refuses(check)]
    assert found.baseline is not None
    assert ["PATH006"] == [one.rule for one in found.baseline.gone]
    for name in set(FORMATS) - {"junit"}:
        assert ".DS_Store" in render_report(found, name).decode(), name


def test_another_build_of_the_same_pair_has_the_same_findings(pair: Path, other: Path, tmp_path: Path) -> None:
    """Digests changed with the build; the finding is known all the same, and the report says what differs."""
    renamed(pair)
    terms = baseline_of(run_on(pair), tmp_path)
    rebuilt = Path(shutil.copytree(other, tmp_path / "rebuilt"))
    renamed(rebuilt)
    report = run_on(rebuilt, terms=terms)
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
        write(f"target/coreai/extra{number:02d}.bin", b"x")(pair)
    report = run_on(pair, strict=True)
    assert (30, 20) == (check_of(report, "CTR024").count, len(check_of(report, "CTR024").findings))
    terms = baseline_of(report, tmp_path)
    known = run_on(pair, terms=terms, strict=True)
    assert ("pass", 30) == (known.verdict, check_of(known, "CTR024").known)
    again = baseline_of(known, tmp_path)
    assert "pass" == run_on(pair, terms=again, strict=True).verdict
    write("target/coreai/extra30.bin", b"x")(pair)
    more = check_of(run_on(pair, terms=terms, strict=True), "CTR024")
    assert ("fail", 1, "extra30.bin" in more.findings[0].where) == (more.status, more.counting, True)


def test_what_proves_the_pair_is_never_known(pair: Path, tmp_path: Path) -> None:
    """A baseline does not make a wrong pair right, whatever it lists."""
    put(CONFIG, "hidden_size", value=64)(pair)
    report = run_on(pair)
    assert "fail" == run_on(pair, terms=baseline_of(report, tmp_path)).verdict


def test_a_waived_finding_of_a_baseline_is_not_known(pair: Path, tmp_path: Path) -> None:
    """Or an expired waiver would live on in it; a known one stays known through a chain of baselines."""
    renamed(pair)
    waived = run_on(pair, terms=waiving(tmp_path, waiver_of(run_on(pair), "CTR005")))
    assert "fail" == run_on(pair, terms=baseline_of(waived, tmp_path)).verdict


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
    assert "pass" == run_on(pair, terms=baseline_of(run_on(pair), tmp_path, older)).verdict


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["profile"].update(name="other"), "another profile"),
        (lambda raw: raw.update(inputs={"bundle": {"path": "x", "digests": {}}}), "another kind of subject"),
        (lambda raw: raw.pop("checks"), "no report"),
        (lambda raw: raw.update(schema_version=2), "newer version"),
        (lambda raw: raw.clear(), "not a report"),
    ],
)
def test_a_baseline_of_something_else_is_a_usage_error(
    base: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    """Another profile, a release, another file: no gate passes by it."""
    with pytest.raises(UsageError, match=words):
        run_on(base, terms=baseline_of(run_on(base), tmp_path, change))


def test_selection_follows_the_longest_prefix() -> None:
    """Of the prefixes that fit a rule the longest wins, ignore among equals; without --select all are selected."""

    def ids(select: tuple[str, ...], ignore: tuple[str, ...]) -> set[str]:
        chosen = parse_selection(select, ignore)
        return {one.id for one in all_rules() if one.waivable and chosen.holds(one)}

    everything = {one.id for one in all_rules() if one.waivable}
    lic = {ident for ident in everything if ident.startswith("LIC")}
    assert everything == ids((), ())
    assert everything == ids(("all",), ())
    assert lic == ids(("LIC",), ()) == ids(("lic0,LIC",), ())
    assert lic - {"LIC006"} == ids(("LIC",), ("LIC006",))
    assert {"LIC006"} == ids(("LIC006",), ("LIC",))
    assert set() == ids(("LIC",), ("LIC",))
    assert set() == ids((), ("ALL",))
    assert everything - lic == ids((), ("LIC",))
    assert lic | {"CTR005"} == ids(("LIC", "CTR005"), ("CTR",))


@pytest.mark.parametrize("text", ["HAED", "LIC9", "L1C", "", "LIC,,TAP", "LIC0061", "all,xyz"])
def test_an_unknown_prefix_is_a_usage_error(text: str) -> None:
    """A typing error selects nothing silently: the closest area or rule is named."""
    for select, ignore in (((text,), ()), ((), (text,))):
        with pytest.raises(UsageError, match="start of a rule's id") as caught:
            parse_selection(select, ignore)
        assert caught.value.hint


def test_ignore_leaves_out_only_what_may_be_waived() -> None:
    """Whatever is ignored, every rule that proves the pair runs, and is named as kept."""
    chosen = parse_selection((), ("ALL",))
    running = {one.id for one in all_rules() if chosen.holds(one)}
    assert {one.id for one in all_rules() if not one.waivable} == running == set(chosen.kept())


def test_a_selection_never_looks_like_a_whole_pass(pair: Path) -> None:
    """Each format says how many rules were not selected; the rules that run judge as always."""
    put(CONFIG, "hidden_size", value=64)(pair)
    report = run_on(pair, terms=Terms(selection=parse_selection(("LIC", "TAP"), ())))
    left = sum(not ident.startswith(("LIC", "TAP")) for ident in IDS)
    assert ("pass", left) == (report.verdict, report.not_selected)
    for name in set(FORMATS) - {"json"}:
        assert f"{left} rules not selected" in render_report(report, name).decode(), name
    raw = report_json(report)
    assert (False, left, left) == (
        raw["complete"],
        raw["counts"]["not_selected"],
        len(raw["selection"]["not_selected"]),
    )
    assert render_report(report, "text").decode().startswith(f"PASS, {left} rules not selected")
    whole = run_on(pair)
    assert (True, None) == (report_json(whole)["complete"], report_json(whole)["selection"])


def test_a_selection_reads_only_what_it_needs(base: Path) -> None:
    """At depth lineage, a rule on names decodes no program and hashes no file."""
    pair = Pair(find_sources(base / "drafter", base / "target"), tiny_profile(), Depth.LINEAGE)
    report = verify(pair, terms=Terms(selection=parse_selection(("CTR005",), ())))
    assert "pass" == report.verdict
    assert not any(source.settled for source in (pair.program, pair.target_programs, pair.digests))


def test_exit_zero_forgives_what_may_be_waived(pair: Path) -> None:
    """The verdict stays; a rule that proves the pair still ends with 1."""
    renamed(pair)
    report = run_on(pair, terms=Terms(exit_zero=True))
    assert ("fail", 0) == (report.verdict, report.exit_code)
    assert "exit code 0 with --exit-zero" in render_report(report, "text").decode()
    put(CONFIG, "hidden_size", value=64)(pair)
    report = run_on(pair, terms=Terms(exit_zero=True))
    assert ("fail", 1) == (report.verdict, report.exit_code)


def test_explained_rules_say_whether_they_may_be_waived() -> None:
    """The register tells it for programs, too."""
    from forgepack.render.rules import rule_json

    assert (True, False) == (rule_json(find_rule("LIC006"))["waivable"], rule_json(find_rule("HEAD003"))["waivable"])
