"""Trace files: the archive, the keys, the schedule; every fault by its own code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.errors import CorruptError, LimitError, MissingError, NumericsError, UnreadableError
from tests.synthetic import GEOMETRY, Recorded, Tensors, trace_arrays

LENGTH, PLEN = 20, 5


def sequence(length: int = LENGTH, plen: int = PLEN, accepted: tuple[int, ...] = (1, 3, 0, 2)) -> Recorded:
    shape = (length - 1, len(GEOMETRY.taps), GEOMETRY.hidden)
    rng = np.random.default_rng(length)
    return Recorded(
        tokens=rng.integers(0, GEOMETRY.vocab, length).astype(np.int32),
        plen=plen,
        features=rng.standard_normal(shape).astype(np.float16),
        accepted=np.array(accepted, np.int8),
    )


def save(path: Path, arrays: Tensors) -> Path:
    np.savez(path, allow_pickle=False, **arrays)
    return path


def load(tmp_path: Path, **changes: Any) -> TraceSet:
    """Read one sequence with some of its arrays replaced; None drops a key."""
    arrays: dict[str, Any] = trace_arrays([sequence()]) | changes
    kept = {name: array for name, array in arrays.items() if array is not None}
    return read_traces(save(tmp_path / "t.npz", kept), GEOMETRY)


IDENTITY: dict[str, Any] = {
    "schema": "forgepack.traces/1",
    "split": "calibration",
    "generator": "tests",
    "mask_scale": 0.7,
    "taps": [0, 2, 3],
    "tap_convention": "layer_output_zero_based",
    "drafter": {"model_sha256": "a" * 64},
    "target": {
        "export": "e",
        "lm_head_sha256": "b" * 64,
        "tokenizer_sha256": "c" * 64,
        "embedding_sha256": "d" * 64,
    },
}


def as_bytes(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def test_a_sequence_is_read_with_its_schedule(tmp_path: Path) -> None:
    """Blocks start at plen and then at every p + m + 1; the context reaches the last commit."""
    traces = load(tmp_path)
    (found,) = traces.sequences
    assert ([5, 7, 11, 12], [1, 3, 0, 2], 0, 15) == (
        found.positions.tolist(),
        found.accepted.tolist(),
        found.ignored,
        found.context_rows,
    )
    assert (4, None, LENGTH - 1) == (traces.blocks, traces.identity, found.rows)
    expected = sequence().features.reshape(LENGTH - 1, -1)
    assert np.array_equal(expected, traces.features(0))


def test_compressed_archives_are_read_too(tmp_path: Path) -> None:
    """np.savez_compressed holds the same arrays."""
    np.savez_compressed(tmp_path / "t.npz", allow_pickle=False, **trace_arrays([sequence()]))
    assert read_traces(tmp_path / "t.npz", GEOMETRY).blocks == 4


def test_cycles_that_no_longer_fit_are_counted_not_walked(tmp_path: Path) -> None:
    """A recording may end in cycles whose blocks reach past the stored tokens: they are ignored."""
    traces = load(tmp_path, m_0=np.array([3, 3, 3, 2], np.int8))
    assert ([5, 9, 13], 1) == (traces.sequences[0].positions.tolist(), traces.sequences[0].ignored)


def test_blocks_without_features_are_not_walked(tmp_path: Path) -> None:
    """A block needs a feature row for every position before it."""
    traces = load(tmp_path, feats_0=sequence().features[:8])
    assert ([5, 7], 2, 8) == (
        traces.sequences[0].positions.tolist(),
        traces.sequences[0].ignored,
        traces.sequences[0].context_rows,
    )


@given(st.lists(st.integers(0, GEOMETRY.block - 1), max_size=4), st.integers(1, 6))
def test_schedule_follows_the_recorded_cycles(
    tmp_path_factory: pytest.TempPathFactory, m: list[int], plen: int
) -> None:
    """Whatever was accepted, consecutive starts differ by m + 1 and no walked block leaves the sequence."""
    arrays = trace_arrays([sequence(length=40, plen=plen, accepted=tuple(m))])
    found = read_traces(save(tmp_path_factory.mktemp("t") / "t.npz", arrays), GEOMETRY).sequences[0]
    starts = [plen + sum(m[:n]) + n for n in range(len(m))]
    assert starts == found.positions.tolist()
    assert found.ignored == 0


def test_identity_is_parsed(tmp_path: Path) -> None:
    """Traces of this project say which drafter and target they belong to."""
    identity = load(tmp_path, forgepack_identity=as_bytes(IDENTITY)).identity
    assert identity is not None
    assert ("a" * 64, "e", "b" * 64, (0, 2, 3), 0.7) == (
        identity.model_sha256,
        identity.export,
        identity.head_sha256,
        identity.taps,
        identity.mask_scale,
    )


BAD_IDENTITIES: dict[str, Any] = {
    "not an object": [1],
    "another schema": IDENTITY | {"schema": "forgepack.traces/2"},
    "an unknown key": IDENTITY | {"rotated": True},
    "a missing key": {k: v for k, v in IDENTITY.items() if k != "taps"},
    "another convention": IDENTITY | {"tap_convention": "layer_input"},
    "taps as texts": IDENTITY | {"taps": ["0", "2", "3"]},
    "a flag for a scale": IDENTITY | {"mask_scale": True},
    "a scale of zero": IDENTITY | {"mask_scale": 0},
    "a short digest": IDENTITY | {"drafter": {"model_sha256": "abc"}},
    "no target": IDENTITY | {"target": None},
    "an unknown inner key": IDENTITY | {"drafter": {"model_sha256": "a" * 64, "x": 1}},
}


@pytest.mark.parametrize("kind", BAD_IDENTITIES)
def test_an_identity_of_another_form_is_refused(tmp_path: Path, kind: str) -> None:
    """An identity is complete and exact, or an error: never half believed."""
    with pytest.raises(CorruptError):
        load(tmp_path, forgepack_identity=as_bytes(BAD_IDENTITIES[kind]))


@pytest.mark.parametrize("array", [np.zeros(3, np.int8), np.zeros((2, 2), np.uint8), np.zeros(70_000, np.uint8)])
def test_an_identity_that_is_no_text_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    """The identity is one axis of uint8 of bounded length."""
    with pytest.raises(CorruptError) as caught:
        load(tmp_path, forgepack_identity=array)
    assert caught.value.code == "traces-identity"


BASE = sequence()
FORMS: dict[str, tuple[str, Any, str]] = {
    "tokens int64": ("tokens_0", BASE.tokens.astype(np.int64), "traces-form"),
    "tokens big-endian": ("tokens_0", BASE.tokens.astype(">i4"), "npz"),
    "tokens 2-d": ("tokens_0", BASE.tokens[:, None], "traces-form"),
    "tokens 0-d": ("tokens_0", np.array(3, np.int32), "traces-form"),
    "plen 1-d": ("plen_0", np.array([5]), "traces-form"),
    "plen float": ("plen_0", np.array(5.0), "traces-form"),
    "features float32": ("feats_0", BASE.features.astype(np.float32), "traces-form"),
    "features flat": ("feats_0", BASE.features.reshape(LENGTH - 1, -1), "traces-form"),
    "features Fortran": ("feats_0", np.asfortranarray(BASE.features), "npz"),
    "one tap too few": ("feats_0", BASE.features[:, :2], "traces-form"),
    "another hidden size": ("feats_0", BASE.features[:, :, :16], "traces-form"),
    "m int64": ("m_0", BASE.accepted.astype(np.int64), "traces-form"),
    "m 0-d": ("m_0", np.array(1, np.int8), "traces-form"),
    "token over the vocabulary": ("tokens_0", np.full(LENGTH, GEOMETRY.vocab, np.int32), "traces-range"),
    "token below zero": ("tokens_0", np.full(LENGTH, -1, np.int32), "traces-range"),
    "m over the block": ("m_0", np.array([GEOMETRY.block], np.int8), "traces-range"),
    "m below zero": ("m_0", np.array([-1], np.int8), "traces-range"),
    "plen zero": ("plen_0", np.array(0), "traces-range"),
    "plen over the tokens": ("plen_0", np.array(LENGTH + 1), "traces-range"),
    "more features than a cut leaves": ("feats_0", np.zeros((LENGTH + 4, 3, 32), np.float16), "traces-schedule"),
    "more cycles than tokens": ("m_0", np.zeros(LENGTH + 1, np.int8), "traces-schedule"),
    "features end in the prompt": ("feats_0", BASE.features[: PLEN - 1], "traces-schedule"),
    "too many cycles": ("m_0", np.full(9, 3, np.int8), "traces-schedule"),
    "a missing key": ("m_0", None, "traces-key"),
    "an unknown key": ("offset_0", np.zeros(1), "traces-key"),
    "a gap in the numbers": ("tokens_2", BASE.tokens, "traces-key"),
    "a leading zero": ("tokens_00", BASE.tokens, "traces-key"),
}


@pytest.mark.parametrize("kind", FORMS)
def test_each_fault_has_its_code(tmp_path: Path, kind: str) -> None:
    """Wrong dtypes, shapes, ranges, schedules and keys are refused, each by its own code."""
    name, value, code = FORMS[kind]
    with pytest.raises(CorruptError) as caught:
        load(tmp_path, **{name: value})
    assert (code, 4) == (caught.value.code, caught.value.exit_code)


def test_no_sequence_is_refused(tmp_path: Path) -> None:
    """An archive with an identity alone holds nothing to calibrate on."""
    with pytest.raises(CorruptError) as caught:
        read_traces(save(tmp_path / "t.npz", {"forgepack_identity": as_bytes(IDENTITY)}), GEOMETRY)
    assert caught.value.code == "traces-empty"


def test_an_endless_sequence_is_over_the_limit(tmp_path: Path) -> None:
    """A sequence of more tokens than any context is refused before its features are read."""
    with pytest.raises(LimitError):
        load(tmp_path, tokens_0=np.zeros(70_000, np.int32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nonfinite_features_are_named(tmp_path: Path, value: float) -> None:
    """A value that is not finite is named with its sequence and place."""
    features = BASE.features.copy()
    features[3, 1, 30] = value
    with pytest.raises(NumericsError, match=r"feats_0\[3, 1, 30\]"):
        load(tmp_path, feats_0=features).features(0)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    """Absence is not corruption."""
    with pytest.raises(MissingError):
        read_traces(tmp_path / "none.npz", GEOMETRY)


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in place of the file is refused at once."""
    os.mkfifo(tmp_path / "t.npz")
    with pytest.raises(CorruptError) as caught:
        read_traces(tmp_path / "t.npz", GEOMETRY)
    assert caught.value.code == "not-regular"


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    """Features read after the file has been replaced are not mixed with what was judged before."""
    traces = load(tmp_path)
    save(tmp_path / "t.npz", trace_arrays([sequence(length=24)]))
    with pytest.raises(UnreadableError) as caught:
        traces.features(0)
    assert caught.value.code == "changed"


def test_the_tokens_of_all_sequences_are_bounded(tmp_path: Path) -> None:
    """What is read at once is bounded before it is read: a few kilobytes can declare gigabytes."""
    one = {"plen": np.array(5), "m": np.zeros(0, np.int8), "feats": np.zeros((5, 3, 32), np.float16)}
    arrays = {f"{kind}_{j}": value for j in range(129) for kind, value in one.items()}
    arrays |= {f"tokens_{j}": np.zeros(65_536, np.int32) for j in range(129)}
    np.savez_compressed(tmp_path / "t.npz", allow_pickle=False, **arrays)
    with pytest.raises(LimitError, match="too many tokens"):
        read_traces(tmp_path / "t.npz", GEOMETRY)


def test_features_are_read_in_parts(tmp_path: Path) -> None:
    """Parts of any size give the features' rows; damage behind the last row in use is found, too."""
    arrays = trace_arrays([sequence()])
    arrays["tokens_0"] = arrays["tokens_0"][:-3]
    traces = load(tmp_path, tokens_0=arrays["tokens_0"])
    expected = arrays["feats_0"][: LENGTH - 3]
    for rows in (1, 4, 100):
        assert np.array_equal(expected, np.concatenate(list(traces.feature_parts(0, rows))))
    data = bytearray(traces.path.read_bytes())
    data[data.rindex(arrays["feats_0"][-1, -1].tobytes())] ^= 1
    traces.path.write_bytes(data)
    with pytest.raises(CorruptError):
        read_traces(traces.path, GEOMETRY).features(0)
