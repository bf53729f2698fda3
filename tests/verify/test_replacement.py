"""``forgepack diff`` of two drafters names the rules by which the verifier fails the second, and no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from forgepack.release.diff.compare import diff_paths
from forgepack.render.diff_text import diff_lines
from forgepack.verify.policy.rule import find_rule
from tests.mutation.catalogue import all_mutants
from tests.mutation.stage import Mutant, Stage
from tests.verify.factory import tiny_profile
from tests.verify.running import verified
from tests.verify.sabotage import SIDECAR

SHARE = 3011


def _drafter_mutants(base: Path) -> Iterator[Mutant]:
    """Yield the mutants of one file of the drafter folder."""
    found = all_mutants(Stage(base, tiny_profile()))
    return (one for one in found if one.file.startswith("drafter/") and one.program is None and not one.unbound)


def _failed(root: Path) -> set[str]:
    """Return the rules, errors and warnings, by which the verifier fails a pair."""
    checks = verified(root, "lineage").checks
    return {check.id for check in checks if check.status == "fail" and check.severity != "note"}


def test_a_diff_names_exactly_the_rules_that_fail(base: Path, tmp_path: Path, *, whole: bool) -> None:
    """Of every 3011th mutant of a drafter the diff's rules, given the target, are those that fail the mutant."""
    looked, refused = 0, 0
    for mutant in islice(_drafter_mutants(base), 5, None, SHARE // 10 if whole else SHARE):
        root = Path(shutil.copytree(base, tmp_path / str(looked)))
        file = root / mutant.file
        file.unlink() if mutant.make is None else file.write_bytes(mutant.make())
        found = diff_paths(base / "drafter", root / "drafter", profile=tiny_profile(), target=root / "target")
        assert (mutant.name, sorted(_failed(root))) == (mutant.name, list(found.rules or ()))
        looked, refused = looked + 1, refused + bool(found.rules)
        shutil.rmtree(root)
    assert looked >= 2
    assert refused > looked // 2


def test_another_package_fails_by_the_first_ones_sidecar(base: Path, other: Path) -> None:
    """A good package of other weights fails where its bytes are not those that the first one's sidecar binds."""
    found = diff_paths(base / "drafter", other / "drafter", profile=tiny_profile())
    assert {"PKG014", "WGT011"} <= set(found.rules or ())
    named = {rule for one in found.differences for rule in one.rules}
    assert named <= set(found.rules or ())
    selector = next(one for one in found.differences if one.file == "selector.safetensors")
    assert "PKG014" in selector.rules
    assert all(find_rule(rule).id == rule for rule in named)


def test_nothing_fails_a_package_in_its_own_place(base: Path, pair: Path) -> None:
    """Equal packages name no rule; nor does one whose documents are written otherwise."""
    assert diff_paths(base / "drafter", pair / "drafter", profile=tiny_profile()).rules is None
    sidecar = pair / SIDECAR
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text())))
    found = diff_paths(base / "drafter", pair / "drafter", profile=tiny_profile())
    assert ((), ["bytes"]) == (found.rules, [one.kind for one in found.differences])


@pytest.mark.parametrize("part", ["target", "quant", "checkpoint"])
def test_other_things_name_no_rule(base: Path, other: Path, part: str) -> None:
    """Only drafters are judged: of targets, quantizations and checkpoints a diff tells the differences alone."""
    found = diff_paths(base / part, other / part)
    assert found.differences
    assert (None, set()) == (found.rules, {rule for one in found.differences for rule in one.rules})


def test_a_text_says_whether_rules_were_evaluated(base: Path, pair: Path) -> None:
    """No rule that fails, and none that was asked since no shipped profile is named, are two things."""
    sidecar = pair / SIDECAR
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text())))
    sides = base / "drafter", pair / "drafter"
    assert diff_lines(diff_paths(*sides, profile=tiny_profile()))[-1].endswith("; rules: none fails")
    assert diff_lines(diff_paths(*sides))[-1].endswith("; no rule was evaluated: name the profile by --profile")
