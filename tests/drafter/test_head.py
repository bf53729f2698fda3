"""The head in chunks, the best candidates with their ties, and the selector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.drafter import head as head_module
from forgepack.drafter.head import LutHead, best_candidates, logits, open_head
from forgepack.drafter.selector import select
from forgepack.drafter.weights import ArrayWeights
from forgepack.errors import CorruptError, MissingError, NumericsError
from forgepack.parallel import Pool, open_pool
from tests.synthetic import GEOMETRY, Tensors, dense_head, make_head, write_tensors

F32 = npt.NDArray[np.float32]


class Dense:
    """A head in memory."""

    def __init__(self, matrix: F32) -> None:
        self.matrix = matrix

    @property
    def vocab(self) -> int:
        """Rows of the matrix."""
        return len(self.matrix)

    def part(self, span: slice) -> F32:
        """Return some rows."""
        return self.matrix[span]


def lut_head() -> LutHead:
    head = make_head()
    return LutHead(lut=head["lm_head.lut"], indices=head["lm_head.idx"], scale=head["lm_head.scale"])


def expected_best(values: F32, count: int) -> list[list[int]]:
    return [sorted(range(len(row)), key=lambda c, r=row: (-r[c], c))[:count] for row in values.tolist()]  # type: ignore[misc]


@given(st.integers(1, 7), st.data())
def test_best_candidates_are_ordered_by_logit_then_id(span: int, data: st.DataObject) -> None:
    """However the vocabulary is split, ties go to the lower id, and 0 and -0 are one number."""
    few = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 3.5])
    matrix = np.array(data.draw(st.lists(few, min_size=9, max_size=23)), np.float32)[:, None]
    with pytest.MonkeyPatch.context() as patch, open_pool(1) as pool:
        patch.setattr(head_module, "HEAD_SPAN", span)
        rows = np.array([[1.0], [-1.0], [0.0]], np.float32)
        values, ids = best_candidates(rows, Dense(matrix), 5, pool)
    assert expected_best(rows @ matrix.T, 5) == ids.tolist()
    assert np.array_equal(np.take_along_axis(rows @ matrix.T, ids, axis=1), values)


def test_a_lut_head_is_its_dense_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dequantized in chunks, all logits equal those of the whole matrix."""
    monkeypatch.setattr(head_module, "HEAD_SPAN", 7)
    rows = np.random.default_rng(0).standard_normal((5, GEOMETRY.hidden)).astype(np.float32)
    with open_pool(2) as pool:
        found = logits(rows, lut_head(), pool)
    np.testing.assert_allclose(found, rows @ dense_head(make_head()).T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_logit_that_is_not_finite_is_refused(value: float) -> None:
    """No candidate is chosen among values that can't be ordered."""
    with open_pool(1) as pool, pytest.raises(NumericsError, match="logit"):
        best_candidates(np.array([[value]], np.float32), Dense(np.ones((9, 1), np.float32)), 2, pool)


HEADS: dict[str, dict[str, Any]] = {
    "other rows": {"lm_head.idx": np.zeros((47, 32), np.uint8)},
    "packed": {"lm_head.idx": np.zeros((48, 16), np.uint8)},
    "flat codebook": {"lm_head.lut": np.zeros(16, np.float16)},
    "float32 scale": {"lm_head.scale": np.zeros(48, np.float32)},
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_of_another_form_is_refused(tmp_path: Path, kind: str) -> None:
    """The head's tensors have exactly the contract's names, dtypes and shapes."""
    path = write_tensors(tmp_path / "lm_head.safetensors", make_head() | HEADS[kind])
    with pytest.raises(CorruptError) as caught:
        open_head(read_safetensors(path), GEOMETRY)
    assert caught.value.code == "head-form"


def test_a_head_without_scale_is_refused(tmp_path: Path) -> None:
    """A missing tensor is named."""
    tensors = make_head()
    del tensors["lm_head.scale"]
    with pytest.raises(MissingError, match=r"lm_head\.scale"):
        open_head(read_safetensors(write_tensors(tmp_path / "lm_head.safetensors", tensors)), GEOMETRY)


def test_a_good_head_is_opened(tmp_path: Path) -> None:
    """What the target export holds comes back."""
    path = write_tensors(tmp_path / "lm_head.safetensors", make_head())
    assert np.array_equal(dense_head(make_head()), open_head(read_safetensors(path), GEOMETRY).part(slice(0, 48)))


def selector_weights(before: Any, after: Any) -> ArrayWeights:
    tensors: Tensors = {
        "candidate_selector.predecessor_codebook": np.array(before, np.float32),
        "candidate_selector.successor_codebook": np.array(after, np.float32),
    }
    return ArrayWeights(geometry=GEOMETRY, tensors=tensors)


def test_selection_is_sequential() -> None:
    """Each choice is conditioned on the one before, not on the anchor: rank 1, four tokens, worked by hand."""
    weights = selector_weights([[0.0], [1.0], [-1.0], [0.0]], [[0.0], [2.0], [0.0], [3.0]])
    values = np.array([[[1.0, 0.5], [1.0, 0.0]]], np.float32)
    ids = np.array([[[2, 1], [1, 3]]])
    hp = np.ones((1, 2, 1), np.float32)
    # anchor 1: 2 scores 1 + 1·0, 1 scores 0.5 + 1·2 -> 1; then prev 1: 1 scores 1 + 2, 3 scores 0 + 3 -> a tie: first
    assert [[1, 1]] == select((values, ids), hp, np.array([1]), weights=weights).tolist()
    # anchor 0 adds nothing: 2 wins; then prev 2 has -1: 1 scores 1 - 2, 3 scores 0 - 3 -> 1
    assert [[2, 1]] == select((values, ids), hp, np.array([0]), weights=weights).tolist()


def test_pool_is_not_needed_for_one_task() -> None:
    """A pool of one thread runs tasks in place."""
    with open_pool(1) as pool:
        assert isinstance(pool, Pool)
        assert pool.executor is None
