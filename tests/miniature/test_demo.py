"""The demo does what it says: every stage works, every sabotage is refused by the rule that fits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from forgepack.canonical import dump_canonical
from forgepack.miniature.sabotage import SABOTAGES
from forgepack.miniature.stages import STAGES
from tests.miniature.show import Show


def test_every_stage_ends_well_and_in_order(show: Show) -> None:
    """Six stages run, each begins, tells what it does, and ends."""
    assert show.result.error is None
    names = [name for name, _ in STAGES]
    assert names == [s.name for s in show.result.stages if s.ok]
    told = [stage for stage, what in show.recorder.events if what == "end"]
    assert names == told


def test_the_result_has_its_documented_form(show: Show) -> None:
    """--json holds exactly the documented keys, and survives a round trip."""
    value = json.loads(dump_canonical(show.result.as_json()))
    assert {"stages", "package", "verify", "sabotage", "acceptance", "agreement", "layer_error"} == set(value)
    assert {"path", "bytes", "mlirb_sha256"} == set(value["package"])
    assert {"name", "ok", "seconds"} == set(value["stages"][0])
    assert {"unquantized", "lut4_rtn", "lut4_gptq", "stale_head"} == set(value["acceptance"])
    assert {"lut4_rtn", "lut4_gptq", "stale_head"} == set(value["agreement"])
    assert "pass" == value["verify"]["verdict"]


@pytest.mark.parametrize("name", [s.name for s in SABOTAGES])
def test_each_sabotage_is_refused_by_a_rule_of_its_area(show: Show, name: str) -> None:
    """A spoiled pair fails, and a rule of the area that owns the fault is among the root causes."""
    refusal = next(r for r in show.result.findings.refusals if r.name == name)
    areas = next(s.areas for s in SABOTAGES if s.name == name)
    assert refusal.refused
    assert any(rule.startswith(areas) for rule in refusal.rules)


def test_gptq_is_closer_than_rounding_where_it_can_be_seen(show: Show) -> None:
    """Held-out layer error falls, agreement does not, and acceptance stays within noise of the unquantized."""
    found = show.result.findings
    base, gptq, rtn = (found.variants[n] for n in ("unquantized", "lut4_gptq", "lut4_rtn"))
    assert found.layer_error["gptq"] < found.layer_error["rtn"]
    assert gptq.agreement >= rtn.agreement
    assert abs(gptq.acceptance.mean - base.acceptance.mean) < base.acceptance.standard_error


def test_a_stale_head_is_visible_in_both_measures(show: Show) -> None:
    """An older head lowers acceptance and, far more, agreement."""
    base, gptq, stale = (show.result.findings.variants[n] for n in ("unquantized", "lut4_gptq", "stale_head"))
    assert stale.acceptance.mean < base.acceptance.mean - base.acceptance.standard_error
    assert stale.agreement < gptq.agreement - 0.2


def test_no_file_of_the_package_names_this_machine(show: Show) -> None:
    """Neither the work folder nor the checkout nor the home folder stands in any emitted byte."""
    places = {str(show.scene.work), str(Path(__file__).parents[2]), str(Path.home()), os.uname().nodename}
    needles = [p.encode() for p in places if len(p) > 4]
    files = [p for root in (show.scene.drafter, show.scene.quant) for p in root.rglob("*") if p.is_file()]
    assert len(files) > 8
    assert [] == [(p.name, n) for p in files for n in needles if n in p.read_bytes()]
