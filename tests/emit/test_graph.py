"""The authored program computes the drafter: on the CPU, against an independent float32 reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forgepack.coreai_backend.compare import compare_programs
from forgepack.coreai_backend.execute import open_session
from forgepack.coreai_backend.program import AssetProgram, Port
from forgepack.emit import graph
from forgepack.emit.package import deployed_recipe
from forgepack.emit.table import constant_table
from forgepack.geometry import Geometry
from forgepack.profile import Recipe
from forgepack.verify.inputs import lineage
from tests.emit.conftest import Emitted
from tests.emit.reference import Reference
from tests.emit.synthetic import RECIPE, Array, draft_inputs, prefill_inputs

WORST, MEDIAN = 1e-2, 5e-3


def errors(found: dict[str, Array], expected: dict[str, Array]) -> dict[str, float]:
    """Return the largest error of each output, relative to its largest value."""
    assert set(found) == set(expected)
    out = {}
    for name, value in expected.items():
        assert found[name].shape == value.shape
        assert found[name].dtype == np.float16
        out[name] = float(np.abs(found[name].astype(np.float32) - value).max() / np.abs(value).max())
    return out


@pytest.mark.parametrize("name", ["mini", "odd"])
def test_outputs_are_the_references(name: str, request: pytest.FixtureRequest) -> None:
    """Every output of both entry points is within 1e-2 at worst and 5e-3 in the median over several blocks.

    The reference knows no folds and takes the features unscaled.
    """
    emitted: Emitted = request.getfixturevalue(name)
    g, reference = emitted.pair.profile.geometry, Reference(emitted.pair.weights)
    measured: dict[str, list[float]] = {}
    with open_session(emitted.reading.files) as session:
        for seed in range(6):
            given = draft_inputs(g, seed=seed, start=60 * seed)
            for output, error in errors(session.call("draft", given), reference.draft(given)).items():
                measured.setdefault(output, []).append(error)
        given = prefill_inputs(g)
        prefill = errors(session.call(g.prefill_entry, given), reference.prefill(given))
    assert max(prefill.values()) < MEDIAN
    for output, values in measured.items():
        assert max(values) < WORST, output
        assert np.median(values) < MEDIAN, output


def test_the_tolerance_sees_a_wrong_mask_scale(mini: Emitted) -> None:
    """A reference at mask scale 1.0 is far from the package at 0.7: the comparison is not blind."""
    given = draft_inputs(mini.pair.profile.geometry)
    with open_session(mini.reading.files) as session:
        found = session.call("draft", given)
    assert errors(found, Reference(mini.pair.weights, mask_scale=1.0).draft(given))["hidden"] > 10 * WORST


def expected_program(geometry: Geometry, recipe: Recipe) -> AssetProgram:
    return lineage.expected_program(lineage.asset_reader(lambda: (), 60), geometry, recipe)


@pytest.mark.parametrize("name", ["mini", "odd"])
def test_package_has_the_expected_structure_and_content(name: str, request: pytest.FixtureRequest) -> None:
    """Walking both traces in step, no operation differs and every role holds the content that the table computes."""
    emitted: Emitted = request.getfixturevalue(name)
    g = emitted.pair.profile.geometry
    expected = expected_program(g, emitted.pair.profile.recipe)
    comparison = compare_programs(expected, emitted.reading.program)
    assert comparison.differences == ()
    bound = emitted.result.sidecar["forgepack"]["package"]
    assert expected.digest == emitted.reading.program.digest == bound["trace_sha256"]
    table = constant_table(g, RECIPE)
    assert set(comparison.roles) == {role for role, spec in table.items() if not spec.inline}
    for role, index in comparison.roles.items():
        constant = emitted.reading.program.constants[index]
        assert constant.sha256 == table[role].digest(emitted.pair.weights) == bound["constants"][role]["sha256"]


def test_structure_does_not_depend_on_the_mask_scale_but_on_other_folds(odd: Emitted) -> None:
    """The mask scale is content; the residual's and the features' folds are inline numbers, hence structure."""
    g, profile = odd.pair.profile.geometry, odd.pair.profile
    base = expected_program(g, profile.recipe).digest
    assert expected_program(g, deployed_recipe(profile, 0.5)).digest == base
    for recipe in (replace(profile.recipe, resid_scale=128.0), replace(profile.recipe, feat_scale=0.25)):
        assert expected_program(g, recipe).digest != base


def test_entry_points_have_the_contracts_signatures(mini: Emitted) -> None:
    """The package's functions are exactly those of the sidecar, with the geometry's shapes."""
    g, program = mini.pair.profile.geometry, mini.reading.program
    found = {
        f.name: {"inputs": [p.name for p in f.inputs], "outputs": [p.name for p in f.outputs]}
        for f in program.functions
    }
    assert mini.result.sidecar["entries"] == found
    draft, prefill = program.function("draft"), program.function("ctx64")
    assert draft is not None
    assert prefill is not None
    for ports, expected in (
        (draft.inputs, graph.draft_inputs(g)),
        (draft.outputs, graph.draft_outputs(g)),
        (prefill.inputs, graph.prefill_inputs(g)),
        (prefill.outputs, graph.prefill_outputs(g)),
    ):
        assert ports == tuple(Port(name=name, dtype="F16", shape=shape) for name, shape in expected)
