"""Selections of rules and exit code 0: shown in every format, never a whole pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.errors import UsageError
from forgepack.render import FORMATS, render_report
from forgepack.render.json_report import report_json
from forgepack.schema_check import schema_faults
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.acceptance import Policy
from forgepack.verify.policy.rule import all_rules, find_rule
from forgepack.verify.policy.selection import parse_selection
from tests.verify.accepting import IDS, junk, renamed, run_on
from tests.verify.factory import tiny_profile
from tests.verify.sabotage import CONFIG, Change, put, remove


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
    report = run_on(pair, policy=Policy(selection=parse_selection(("LIC001", "LIC002", "TAP001"), ())))
    left = len(IDS) - 3
    assert ("selection", 0, left) == (report.verdict, report.exit_code, report.not_selected)
    for name in set(FORMATS) - {"json"}:
        shown = render_report(report, name).decode()
        assert f"{left} rules not selected" in shown, name
        assert "selection" in shown.lower(), name
        assert '"verdict": "pass"' not in shown, name
    raw = report_json(report)
    assert ("selection", ()) == (raw["verdict"], schema_faults(raw, "report"))
    assert (False, left, left) == (
        raw["complete"],
        raw["counts"]["not_selected"],
        len(raw["selection"]["not_selected"]),
    )
    assert render_report(report, "text").decode().startswith(f"SELECTION, {left} rules not selected")
    whole = run_on(pair)
    assert (True, None) == (report_json(whole)["complete"], report_json(whole)["selection"])


@pytest.mark.parametrize(
    ("select", "change", "outcome"),
    [
        (("CTR005",), None, ("selection", 0)),
        (("CTR005",), renamed, ("fail", 1)),
        (("PATH006",), junk, ("fail", 1)),
        (("SRC007",), None, ("error", 4)),
        (("HEAD003",), None, ("error", 4)),
        (("SRC002", "SRC003"), None, ("error", 4)),
        (("NUM002",), remove("drafter/dflash2_lut4_gptq.json"), ("error", 4)),
    ],
    ids=["passed", "failed", "warned", "nothing-given", "deeper", "one-of-two", "lost-to-another-fault"],
)
def test_a_selection_is_answered_in_full_or_not_at_all(
    pair: Path, select: tuple[str, ...], change: Change | None, outcome: tuple[str, int]
) -> None:
    """0 only where every selected rule was evaluated and passed, 1 for one that failed, 4 for one not evaluated."""
    if change is not None:
        change(pair)
    report = run_on(pair, policy=Policy(selection=parse_selection(select, ())))
    assert outcome == (report.verdict, report.exit_code)
    if report.exit_code == 4:
        assert "though required" in render_report(report, "text").decode()
        forgiven = run_on(pair, policy=Policy(selection=parse_selection(select, ()), exit_zero=True))
        assert 4 == forgiven.exit_code


def test_a_selection_reads_only_what_it_needs(base: Path) -> None:
    """At depth lineage, a rule on names decodes no program and hashes no file."""
    pair = OpenPair(find_sources(base / "drafter", base / "target"), tiny_profile(), Depth.LINEAGE)
    report = verify(pair, policy=Policy(selection=parse_selection(("CTR005",), ())))
    assert "selection" == report.verdict
    assert not any(source.settled for source in (pair.program, pair.target_programs, pair.digests))


def test_exit_zero_forgives_what_may_be_waived(pair: Path) -> None:
    """The verdict stays; a rule that proves the pair still ends with 1."""
    renamed(pair)
    report = run_on(pair, policy=Policy(exit_zero=True))
    assert ("fail", 0) == (report.verdict, report.exit_code)
    assert "exit code 0 with --exit-zero" in render_report(report, "text").decode()
    put(CONFIG, "hidden_size", value=64)(pair)
    report = run_on(pair, policy=Policy(exit_zero=True))
    assert ("fail", 1) == (report.verdict, report.exit_code)


def test_explained_rules_say_whether_they_may_be_waived() -> None:
    """The register tells it for programs, too."""
    from forgepack.render.rules import rule_json

    assert (True, False) == (rule_json(find_rule("LIC006"))["waivable"], rule_json(find_rule("HEAD003"))["waivable"])
