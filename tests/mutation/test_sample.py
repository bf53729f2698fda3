"""A seeded sample of ``make mutate`` on the tiny pair, and the mutants themselves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.catalogue import LEGAL, TOLD, all_mutants
from tests.mutation.json_mutants import json_mutants
from tests.mutation.pairs import tiny_stage
from tests.mutation.run import judge_share, summarise
from tests.mutation.stage import Stage

SHARES = 97


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Emit the tiny pair and read it once."""
    return tiny_stage(tmp_path_factory.mktemp("mutation") / "pair")


def test_every_sampled_mutant_is_refused_or_legal(stage: Stage) -> None:
    """Of every 97th mutant none passes, none crashes, and each is refused by a rule of its area."""
    results = list(judge_share(stage, 13, SHARES))
    assert len(results) > 100
    assert [] == summarise(results, 0.0)["open"]


def test_every_part_is_mutated(stage: Stage) -> None:
    """No subject is empty: JSON files, tensors, program, texts; and every legal mutation has a reason."""
    subjects = Counter(mutant.subject for mutant in all_mutants(stage))
    assert 19 <= len(subjects)
    assert min(subjects.values()) >= 8
    assert all(why for _, why in (*LEGAL, *TOLD))


def test_json_mutants_differ_from_the_file_and_each_other() -> None:
    """Each mutant is another text, and the file's kinds of change are all there."""
    data = json.dumps({"a": 1, "b": [1, 2], "c": {"d": "x", "e": None, "f": True, "g": 1.5}}).encode()
    found = list(json_mutants(data))
    kinds = {one.kind for one in found}
    assert {"value", "type", "missing", "duplicate", "off by one", "reordered", "extra", "null"} <= kinds
    assert all(one.make() != data for one in found)
    assert len({one.make() for one in found}) > len(found) * 0.9


def test_the_working_copy_is_restored(stage: Stage) -> None:
    """After a mutant the pair is what it was."""
    file = Path(stage.root) / "drafter/config.json"
    before = file.read_bytes()
    for mutant in all_mutants(stage):
        if mutant.file == "drafter/config.json":
            stage.judge(mutant)
            break
    assert before == file.read_bytes()
