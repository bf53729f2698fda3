"""The steps of a quantization, and progress counted by them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from forgepack.geometry import int8_matrices, lut_matrices
from forgepack.profile import Profile, load_profile
from forgepack.quantize.plan import plan
from forgepack.quantize.progress import Progress
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from forgepack.quantize.steps import FORWARD, Rows, make_steps
from tests.synthetic import GEOMETRY

FULL = Rows(context=11_226, block=20_160, held_out_context=2_676, held_out_block=5_440)


class Stopped(Exception):  # noqa: N818
    """Stands for a kill."""


def run(sources: Sources, out: Path, profile: Profile, *, stop_after: int = 0) -> list[Progress]:
    events: list[Progress] = []

    def listen(event: Progress) -> None:
        events.append(event)
        if event.done == stop_after:
            raise Stopped

    if stop_after:
        with pytest.raises(Stopped):
            quantize(sources, out, profile=profile, options=Options(), progress=listen)
    else:
        quantize(sources, out, profile=profile, options=Options(), progress=listen)
    return events


def test_steps_stand_in_the_order_of_the_work(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """Matrices are finished in the plan's order, each once, and each event names the one that follows."""
    planned = plan(sources, tmp_path / "q", profile, Options())
    names = [name for step in planned.steps for name in step.matrices]
    assert sorted(names) == sorted([*lut_matrices(GEOMETRY), *int8_matrices(GEOMETRY)])
    events = run(sources, tmp_path / "q", profile)
    assert names == [event.name for event in events]
    assert [*names[1:], ""] == [event.following for event in events]
    assert list(range(1, len(names) + 1)) == [event.done for event in events]
    assert {(len(names), False)} == {(event.total, event.resumed) for event in events}


def test_all_operations_of_the_plan_are_done_in_the_end(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """Operations grow with every matrix, up to what the plan counts."""
    planned = plan(sources, tmp_path / "q", profile, Options())
    events = run(sources, tmp_path / "q", profile)
    done = [event.operations for event in events]
    assert all(left < right for left, right in pairwise(done))
    assert sum(step.total for step in planned.steps) == pytest.approx(events[-1].operations_total)
    assert events[-1].operations == pytest.approx(events[-1].operations_total)


def test_what_an_earlier_run_finished_costs_the_forward_pass_alone(
    sources: Sources, profile: Profile, tmp_path: Path
) -> None:
    """A run that goes on has fewer operations to do, by those of the finished matrices but for their products."""
    planned = plan(sources, tmp_path / "q", profile, Options())
    run(sources, tmp_path / "q", profile, stop_after=2)
    events = run(sources, tmp_path / "q", profile)
    assert [True, True, False] == [event.resumed for event in events[:3]]
    saved = sum(step.total - step.operations[FORWARD] for step in planned.steps[:2])
    whole = sum(step.total for step in planned.steps)
    assert whole - saved == pytest.approx(events[-1].operations_total)


def test_plain_rounding_factorizes_nothing(sources: Sources, profile: Profile, tmp_path: Path) -> None:
    """--method rtn plans no factorization, no GPTQ pass, and half the errors on held-out rows."""
    both = [plan(sources, tmp_path / "q", profile, Options(method=method)).steps for method in ("gptq", "rtn")]
    for gptq, rtn in zip(*both, strict=True):
        missing = {"factorization", "gptq"} if gptq.form == "lut4" else set()
        assert missing == set(gptq.operations) - set(rtn.operations)
        assert gptq.operations[FORWARD] == rtn.operations[FORWARD]


def test_the_release_fits_its_memory() -> None:
    """At full size no step needs more than 16 GiB; fc and down_proj need the most."""
    steps = make_steps(load_profile().geometry, FULL)
    assert max(step.memory for step in steps) < 16 << 30
    ordered = sorted(steps, key=lambda step: step.memory)
    assert ["fc.weight"] == list(ordered[-1].matrices)
    assert all(name.endswith("down_proj.weight") for step in ordered[-6:-1] for name in step.matrices)
    assert 36 == len(steps)
