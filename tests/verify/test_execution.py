"""Depth run: the package on the CPU against the float32 reference, and outputs that are off are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.checkpoint import read_checkpoint_files
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.target import locate_target, read_target
from forgepack.coreai_backend.execute import open_session
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import open_head
from forgepack.drafter.weights import ArrayWeights
from forgepack.emit.package_weights import PackageHead, PackageWeights
from forgepack.geometry import checkpoint_tensors, int8_matrices, lut_matrices
from forgepack.miniature.scene import Scene
from forgepack.parallel import open_pool
from forgepack.release.replay.package_weights import open_package
from forgepack.verify import engine
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.execution import (
    TYPICAL,
    WORST,
    Deviation,
    Execution,
    compare_outputs,
    deviation,
    synthetic_sample,
)
from forgepack.verify.inputs.reading import Input
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import find_rule
from tests.miniature.show import Show

NEAR = 1e-2


def test_held_out_blocks_are_near_the_reference(show: Show, *, whole: bool) -> None:
    """No output deviates by more than 1e-2, nor by more than 5e-3 in the median; few blocks draft another token.

    In every sequence a quarter of the blocks, with --whole all of them.
    """
    pair = show.scene.pair(show.scene.pairing, Depth.RUN)
    run = OpenPair(pair.sources, pair.profile, Depth.RUN, blocks=None if whole else 65).execution.value
    assert (260 if whole else 65, True) == (run.blocks, run.agreeing >= 0.98 * run.blocks)
    assert max(one.share for one in run.worst().values()) <= WORST
    assert max(run.typical().values()) <= TYPICAL
    names = {name.split(".")[1].rstrip("012") for name in run.worst()}
    assert {"k_new", "v_new", "hidden", "hp", "logits"} == names


def test_without_traces_seeded_features_are_run(show: Show) -> None:
    """Depth run needs no traces: a synthetic prompt and two blocks exercise both entry points."""
    pairing = show.scene.pairing
    sources = show.scene.pair(pairing, Depth.LINEAGE).sources
    report = verify(OpenPair(sources, show.scene.profile, Depth.RUN))
    status = {check.id: check.status for check in report.checks}
    assert ("pass", "pass", "not-evaluated", "pass") == (
        status["NUM020"],
        status["NUM021"],
        status["NUM022"],
        report.verdict,
    )


class Wrong:
    """A session whose outputs are spoiled after the true package computed them."""

    def __init__(self, session: Any, output: str, change: Any) -> None:
        self._session, self._output, self._change = session, output, change

    def call(self, entry: str, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        results: dict[str, npt.NDArray[Any]] = self._session.call(entry, inputs)
        if self._output in results:
            results[self._output] = self._change(results[self._output])
        return results


CHANGES: dict[str, tuple[str, Any]] = {
    "rows in another order": ("logits", lambda y: y[::-1]),
    "two percent too large": ("hidden", lambda y: (y * np.float16(1.02)).astype(np.float16)),
    "one NaN": ("hp", lambda y: np.where(np.arange(y.size).reshape(y.shape) == 3, np.float16("nan"), y)),
    "infinite": ("k_new0", lambda y: y + np.float16("inf")),
    "keys for values": ("v_new1", lambda y: y[::-1].copy()),
}


@contextmanager
def opened_weights(scene: Scene) -> Iterator[tuple[PackageWeights, PackageHead]]:
    """Give a package's weights, the mask scale not applied, and its head."""
    with open_package(scene.drafter, scene.profile) as opened:
        assert isinstance(opened.weights, PackageWeights)
        assert isinstance(opened.head, PackageHead)
        yield replace(opened.weights, mask_applied=False), opened.head


@pytest.mark.parametrize("name", CHANGES)
def test_an_output_that_is_off_is_named(show: Show, name: str) -> None:
    """A spoiled output is told by its own name, and no other is."""
    output, change = CHANGES[name]
    scene = show.scene
    g, recipe = scene.profile.geometry, scene.profile.recipe
    files = read_asset_files(scene.drafter / f"{scene.profile.package}.aimodel")
    target = read_target(locate_target(scene.miniature.target))
    with (
        opened_weights(scene) as (weights, head),
        open_session(files) as session,
        open_pool(1) as pool,
    ):
        drafter = Drafter(weights=weights, head=head, embedding=target.embedding, mask_scale=recipe.mask_scale)
        spoiled = Wrong(session, output, change)
        run = compare_outputs(spoiled, drafter, [synthetic_sample(g)], feat_scale=recipe.feat_scale, pool=pool)
    off = {n.split(".")[1] for n, one in run.worst().items() if one.share > NEAR}
    # A spoiled key or value also lies in the ring, so what the blocks compute from it is off as well.
    assert output in off
    assert off <= {output, "hidden", "hp", "logits"} if output.endswith(("0", "1")) else {output} == off


def test_rules_judge_what_was_run(show: Show) -> None:
    """A value that is not finite, one too far off, and other drafts each fail the rule of its own."""
    pair = show.scene.pair(show.scene.pairing, Depth.RUN)
    off = Execution(
        deviations=(
            Deviation(output="draft.hp", where="block 3", share=float("inf")),
            Deviation(output="draft.logits", where="block 4", share=2e-2),
        ),
        blocks=10,
        agreeing=8,
    )
    pair.execution = Input("execution", lambda: off, depth=Depth.RUN)
    told = {ident: engine.evaluate(find_rule(ident), pair, []) for ident in ("NUM020", "NUM021", "NUM022")}
    assert {"fail"} == {check.status for check in told.values()}
    assert ["draft.hp"] == [one.subject for one in told["NUM020"].findings]
    assert {"draft.logits"} == {one.subject for one in told["NUM021"].findings}
    assert ["8 of 10"] == [one.found for one in told["NUM022"].findings]


def test_deviation_is_a_share_of_the_largest_value() -> None:
    """Zero for equal arrays, infinite for NaN or another shape, absolute where the reference is zero."""
    ones = np.ones((2, 2), np.float32)
    assert 0.0 == deviation(ones.astype(np.float16), ones)
    assert 0.5 == deviation(np.full((2, 2), 1.0), 2 * ones)
    assert float("inf") == deviation(np.full((2, 2), np.nan), ones)
    assert float("inf") == deviation(np.ones(4), ones)
    assert 3.0 == deviation(np.full((2, 2), 3.0), 0 * ones)


@pytest.mark.parametrize(("calls", "expected"), [(7, {}), (8, {"draft.hidden": 4.5})])
def test_a_few_calls_have_no_median(calls: int, expected: dict[str, float]) -> None:
    """Below eight calls an output is judged by its worst call alone."""
    deviations = tuple(Deviation(output="draft.hidden", where="", share=float(n)) for n in range(1, calls + 1))
    run = Execution(deviations=deviations, blocks=calls, agreeing=calls)
    assert expected == run.typical()
    assert float(calls) == run.worst()["draft.hidden"].share


def test_weights_read_back_are_the_quantized_drafter(show: Show) -> None:
    """Every tensor of the package, folds undone, equals what quantization and checkpoint say; so does the head."""
    scene = show.scene
    g = scene.profile.geometry
    quant = read_quant(scene.quant, g)
    _, checkpoint = read_checkpoint_files(scene.checkpoint, g)
    plain = ArrayWeights(geometry=g, tensors={n: checkpoint.array(n) for n in checkpoint.tensors})
    target = read_target(locate_target(scene.miniature.target))
    assert target.head is not None
    matrices = {**lut_matrices(g), **int8_matrices(g)}
    with opened_weights(scene) as (weights, head):
        for name in checkpoint_tensors(g):
            expected = quant.dequantize(name) if name in matrices else plain.tensor(name)
            if name not in matrices and "codebook" not in name:
                expected = expected.astype(np.float16).astype(np.float32)
            assert np.array_equal(expected, weights.tensor(name)), name
        whole = slice(0, g.vocab)
        assert np.array_equal(open_head(target.head, g).part(whole), head.part(whole))
        assert np.array_equal(head.part(whole)[35:85], head.part(slice(35, 85)))
