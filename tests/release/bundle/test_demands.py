"""Each demand of section 7 broken once: our verifier and the check written from the contract's text both refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.bench import TINY, judged, read_json
from tests.release.bundle.breaches import Breach
from tests.release.bundle.breaches_of_pair import PAIR, TARGET
from tests.release.bundle.breaches_of_release import CONTENT, FORM, PATHS, PLACES
from tests.release.bundle.release_check import RefusedError, check_release
from tests.verify.running import explain_all, roots, told

BREACHES = [*FORM, *PATHS, *PLACES, *CONTENT, *TARGET, *PAIR]


def test_the_bundle_is_accepted_by_both(released: Path) -> None:
    """A bundle of a good pair passes the check of section 7 and our own, and every file is compared."""
    assert len(read_json(released / "release.json")["files"]) == check_release(released, TINY)
    report = judged(released, "lineage")
    assert ("pass", 0) == (report.verdict, report.exit_code), explain_all(report)
    assert ["CTR083"] == [check.id for check in report.failed("warning") + report.failed("note")]


@pytest.mark.parametrize("breach", BREACHES, ids=[breach.name for breach in BREACHES])
def test_each_demand_is_enforced_by_both(bare: Path, breach: Breach) -> None:
    """A broken demand is refused by the check of section 7 and, by the rule that fits, by our own."""
    breach.change(bare)
    with pytest.raises(RefusedError, match=breach.word):
        check_release(bare, TINY)
    report = judged(bare)
    assert ("fail", 1) == (report.verdict, report.exit_code)
    assert sorted(breach.causes) == roots(report), explain_all(report)
    assert all(told(report, ident) for ident in breach.causes)


def test_names_of_breaches_are_distinct() -> None:
    """No breach hides behind another of its name."""
    assert len(BREACHES) == len({breach.name for breach in BREACHES})
