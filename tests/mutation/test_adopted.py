"""No edit makes an adopted checkpoint a fetched one, or traces without identity bound: a rule of SRC refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.profile import Profile
from tests.mutation.adopted_mutants import adopted_mutants
from tests.mutation.pairs import tiny_stage
from tests.mutation.stage import Stage
from tests.verify import conftest
from tests.verify.factory import lock_checkpoint, report_quant, tiny_profile
from tests.verify.sabotage import put


def adopted_stage(root: Path) -> Stage:
    """Emit the tiny pair from an adopted checkpoint, by traces without identity."""

    def unproven(quant: Path, checkpoint: Path, target: Path, profile: Profile) -> None:
        lock_checkpoint(checkpoint, profile, adopted=True)
        report_quant(quant, checkpoint, target, profile)
        put("report.json", "inputs", "calibration", "bound", value=False)(quant)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conftest, "report_quant", unproven)
        return Stage(conftest.build_pair(root, tiny_profile()), tiny_profile())


@pytest.mark.parametrize("make", [tiny_stage, adopted_stage])
def test_every_edit_of_a_source_is_refused(tmp_path: Path, make: object) -> None:
    """Of a proven pair and of an adopted one: in sidecar, lock and report, to each other value."""
    assert callable(make)
    stage = make(tmp_path / "pair")
    results = [stage.judge(mutant) for mutant in adopted_mutants(stage)]
    assert len(results) > 20
    assert [] == [(one.mutant.name, one.ending) for one in results if one.ending != "refused"]
    assert {"SRC"} == {one.rule[:3] for one in results}
