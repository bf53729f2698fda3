"""Phases: time belongs to the innermost one, and every hook still exists in the tool."""

from __future__ import annotations

import importlib

import pytest

from benchmarks.phases import HOOKS, REST, Recorder


@pytest.mark.parametrize(("module", "attribute"), sorted({hook[1:] for hook in HOOKS}))
def test_every_hook_names_a_function_of_the_tool(module: str, attribute: str) -> None:
    """A renamed function must not leave its phase empty without a word."""
    owner = importlib.import_module(module)
    for part in attribute.split("."):
        owner = getattr(owner, part)
    assert callable(owner)


def test_calls_are_counted_and_results_and_errors_pass_through() -> None:
    """A wrapped function behaves as before."""
    recorder = Recorder()

    def fail() -> None:
        raise ValueError("inner")

    double = recorder.wrap("outer", lambda x: 2 * x)
    assert double(4) == 8
    with pytest.raises(ValueError, match="inner"):
        recorder.wrap("inner", fail)()
    found = recorder.finish()
    assert {REST: 1, "outer": 1, "inner": 1} == {name: phase["calls"] for name, phase in found.items()}


def test_time_inside_an_inner_phase_is_not_the_outer_ones() -> None:
    """An outer phase that only calls an inner one has next to none of its CPU time."""
    recorder = Recorder()
    inner = recorder.wrap("inner", lambda: sum(range(2_000_000)))
    recorder.wrap("outer", inner)()
    found = recorder.finish()
    assert found["inner"]["cpu"] > 10 * found["outer"]["cpu"]
