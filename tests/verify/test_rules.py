"""The register of rules: ids, needs, owners of error codes, causes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import forgepack
from forgepack.errors import UsageError
from forgepack.verify.findings.report import FIRST_RULE_SET, RULE_SET, Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import AREAS, CATCH_ALL, all_rules, find_rule, owner_of
from tests.verify.factory import tiny_profile

COMPAT = Path(__file__).parents[2] / "fixtures/compat/0.1.0"
# Codes that no input of a pair can carry: they come from commands that build, from settings, or from content that
# rules judge.
NEVER_AN_INPUT = {
    *("aimodel-hash", "known-bad", "lock-differs", "lock-files", "nonfinite", "quant-digest"),
    *("sidecar", "tensor-dtype", "tensor-missing", "tensor-shape", "tensor-unexpected", "u4-range"),
    *("deny", "emit-inputs", "mil-limit", "pinned", "release-record", "report", "target", "waivers"),
    *("toml-depth", "toml-limit", "toml-number", "toml-syntax"),
}
# Codes of errors that keep a verification from finishing (exit 4 or 7): no fault of the content.
STOPS = {
    *("changed", "unreadable", "header-size", "size-limit", "tensor-count", "tensor-shape-limit", "tree-count"),
    *("npz-limit", "traces-limit", "coreai-import", "coreai-missing", "reader-start"),
}


def test_every_rule_says_all_that_it_must() -> None:
    """Id by area, a title, a demand that is a sentence, why and a remedy; titles are distinct."""
    rules = all_rules()
    assert len(rules) > 100
    for one in rules:
        assert one.area in AREAS
        assert one.demand.endswith(".")
        assert all((one.title, one.why, one.remedy))
        assert not one.title.endswith(".")
    assert len({one.title for one in rules}) == len(rules)


def test_failures_say_what_is_wrong() -> None:
    """A title that denies something has a text of its own for its failure: "does not hold: no ..." is a riddle."""
    for one in all_rules():
        assert one.fails != one.title
        assert not one.fails.endswith(".")
        assert one.fails or not re.search(r"\b(no|not|nothing|neither)\b", one.title), one.id


def test_needs_name_inputs(base: Path) -> None:
    """Every input that a rule names is one of the pair, readable at the rule's depth."""
    pair = OpenPair(find_sources(base / "drafter", base / "target"), tiny_profile(), Depth.HEADER)
    inputs = {source.name: source for source in pair.inputs()}
    assert all(name == source.name for name, source in vars(pair).items() if source in inputs.values())
    for one in all_rules():
        for name in (*one.needs, *one.each_of):
            assert name in inputs, (one.id, name)
            assert inputs[name].depth <= one.depth, (one.id, name)


def test_causes_are_rules_and_form_no_circle() -> None:
    """What a rule names as its cause exists, and no chain of causes leads back."""
    ids = [one.id for one in all_rules()]
    graph = {
        one.id: {other for prefix in one.after for other in ids if other.startswith(prefix) and other != one.id}
        for one in all_rules()
    }
    for one in all_rules():
        assert all(any(i.startswith(prefix) for i in ids) for prefix in one.after), one.id
    done: set[str] = set()
    while rest := {ident for ident in graph if ident not in done and graph[ident] <= done}:
        done |= rest
    assert set(ids) == done


def test_every_code_of_a_reader_has_a_rule() -> None:
    """Each error code that a reader of content raises is owned by a rule, so that its cause has a name."""
    root = Path(forgepack.__file__).parent
    folders = ("artifacts", "coreai_backend", "verify", "canonical.py")
    files = [p for name in folders for p in ([root / name] if name.endswith(".py") else (root / name).rglob("*.py"))]
    codes = {code for path in files for code in re.findall(r'code="([a-z0-9-]+)"', path.read_text())}
    unowned = {code for code in codes if owner_of(code) == CATCH_ALL}
    assert NEVER_AN_INPUT | STOPS == unowned


def test_new_rules_say_what_they_close_or_start_softly() -> None:
    """A rule that 0.1.0 did not have is of a later set; it is no error unless it closes a wrong pair that passed."""
    report = json.loads((COMPAT / "report.json").read_bytes())
    old = {check["id"] for check in report["checks"]}
    for one in all_rules():
        assert (one.since > FIRST_RULE_SET) == (one.id not in old), one.id
        assert one.since <= RULE_SET, one.id
        if one.since == RULE_SET > FIRST_RULE_SET:
            assert one.severity != "error" or one.closes, one.id
        assert one.closes == "" or one.since > FIRST_RULE_SET, one.id


def test_unknown_rule_names_the_closest() -> None:
    """A typing error is answered with the id that was meant."""
    assert "TAP003" == find_rule("tap003").id
    with pytest.raises(UsageError, match="HEAD003"):
        find_rule("HAED003")
