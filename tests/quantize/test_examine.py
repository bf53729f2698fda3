"""What is refused before any work, in a dry run too: foreign shapes, repeated sequences, features of no target."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.trace_overlap import take_fingerprint
from forgepack.artifacts.traces import read_traces
from forgepack.errors import CorruptError, ForgepackError, IdentityError, NumericsError
from forgepack.profile import Profile
from forgepack.quantize.plan import plan
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from forgepack.schema_check import schema_faults
from tests.recorder import simulate
from tests.synthetic import GEOMETRY, Recorded, make_head, make_weights, record, write_tensors, write_traces
from tests.synthetic_files import EXPORT, LENGTHS, open_sources

Change = Callable[[list[Recorded]], object]


def sequences() -> list[Recorded]:
    """Return the pair's calibration, then another sequence."""
    weights = make_weights()
    return [record(weights, length=n, plen=p, seed=s) for s, (n, p) in enumerate([*LENGTHS, (34, 7)])]


def with_traces(
    pair: Path, profile: Profile, root: Path, calibration: list[Recorded], held: list[Recorded]
) -> Sources:
    sources = open_sources(pair, profile)
    files = [write_traces(root / f"{name}.npz", part) for name, part in (("c", calibration), ("h", held)) if part]
    found = [read_traces(path, GEOMETRY) for path in files]
    return replace(sources, traces=found[0], held_out=found[1] if len(found) > 1 else None)


def refused(sources: Sources, root: Path, profile: Profile, kind: type[ForgepackError]) -> ForgepackError:
    """Demand that run and dry run refuse alike, and that nothing was written."""
    errors = []
    for attempt in (
        lambda: quantize(sources, root / "q", profile=profile, options=Options()),
        lambda: plan(sources, root / "q", profile, Options()),
    ):
        with pytest.raises(kind) as caught:
            attempt()
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert not (root / "q").exists()
    return errors[0]


def edited(one: Recorded) -> Recorded:
    """Return a sequence with a token in its middle changed, and its features by a little."""
    tokens = one.tokens.copy()
    tokens[(len(tokens) + one.plen) // 2] ^= 1
    return replace(one, tokens=tokens, features=one.features * np.float16(1.01))


def test_held_out_sequences_of_calibration_are_refused(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Three of four held-out sequences calibrate: their number and the first of them are told."""
    *three, other = sequences()
    error = refused(with_traces(pair, profile, tmp_path, three, [other, *three]), tmp_path, profile, IdentityError)
    assert ("traces-overlap", 4) == (error.code, error.exit_code)
    assert f"{tmp_path / 'h.npz'}: sequence 1" == error.where
    assert f"3 of 4; the first is sequence 0 of {tmp_path / 'c.npz'}" == error.found


def test_an_edited_copy_is_refused(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """One changed token makes no new sequence."""
    *three, other = sequences()
    error = refused(
        with_traces(pair, profile, tmp_path, three, [other, edited(three[0])]), tmp_path, profile, IdentityError
    )
    assert "1 of 2; the first is a copy (" in str(error.found)


@pytest.mark.parametrize("split", [True, False])
def test_a_sequence_twice_in_a_file_is_refused(pair: Path, profile: Profile, tmp_path: Path, split: bool) -> None:
    """One sequence twelve times is no set of traces, whether it calibrates, judges or is split."""
    *three, other = sequences()
    calibration, held = (([other] * 12, [])) if split else (three, [other, other])
    error = refused(with_traces(pair, profile, tmp_path, calibration, held), tmp_path, profile, IdentityError)
    assert ("traces-overlap", "sequence 0 again") == (error.code, error.found)


def test_what_is_shared_is_reported(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """The report holds the fingerprint of what calibrated and the overlap, and its schema describes both."""
    *three, other = sequences()
    phrase = three[0].tokens[12:24]
    other.tokens[10:22] = phrase
    other.tokens[[9, 22]] = (three[0].tokens[[11, 24]] + 1) % 44
    sources = with_traces(pair, profile, tmp_path, three, [other])
    report = quantize(sources, tmp_path / "q", profile=profile, options=Options()).report
    assert () == schema_faults(report, "quant_report")
    overlap = report["inputs"]["held_out"]["overlap"]
    assert (0, 0, {"calibration": 0, "sequence": 0}) == (
        overlap["equal"],
        overlap["copied"],
        {key: overlap["closest"][key] for key in ("calibration", "sequence")},
    )
    assert overlap["share"] == pytest.approx(5 / 20)
    found = read_quant_report(tmp_path / "q/report.json").calibrated
    assert found is not None
    expected = take_fingerprint(sources.traces.sequences)
    assert [s.tokens for s in expected.sequences] == [s.tokens for s in found.sequences]


DEGENERATE: dict[str, tuple[Callable[[Recorded], object], int]] = {
    "all zero": (lambda one: one.features.fill(0), 0),
    "dead tap": (lambda one: one.features[:, 1].fill(0), 2),
    "constant tap": (lambda one: one.features[:, 1].__setitem__(..., one.features[0, 1]), 2),
    "equal taps": (lambda one: one.features[:, 2].__setitem__(..., one.features[:, 1]), 3),
}


@pytest.mark.parametrize("where", ["calibration", "held-out"])
@pytest.mark.parametrize("kind", DEGENERATE)
def test_taps_that_are_no_states_are_refused(
    pair: Path, profile: Profile, tmp_path: Path, kind: str, where: str
) -> None:
    """A dead, constant or repeated tap is refused by its layer, on either side."""
    *three, other = sequences()
    change, layer = DEGENERATE[kind]
    change(three[2] if where == "calibration" else other)
    error = refused(with_traces(pair, profile, tmp_path, three, [other]), tmp_path, profile, NumericsError)
    assert "traces-taps" == error.code
    assert f"tap of layer {layer} (feats_" in str(error.where)


def test_traces_cut_inside_a_cycle_calibrate(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """A recorder's traces are taken as they are; what nothing uses is counted in the report."""
    rng = np.random.default_rng(0)
    cut = [
        simulate(
            rng.integers(0, 44, 6).tolist(),
            rng.integers(0, 44, 60).tolist(),
            [1, 3, 2, 3, 0, 3, 3, 3],
            limit=n,
            seed=n,
        )
        for n in (18, 20, 23)
    ]
    found = quantize(
        with_traces(pair, profile, tmp_path, cut, []), tmp_path / "q", profile=profile, options=Options()
    )
    sides = [found.report["inputs"][key] for key in ("calibration", "held_out")]
    assert sum(max(0, len(one.features) - len(one.tokens)) for one in cut) == sum(
        side["rows_beyond_tokens"] for side in sides
    )
    assert 0 < sum(side["rows_beyond_tokens"] for side in sides)
    assert 0 < sum(side["ignored_cycles"] for side in sides)
    assert [False, False] == [side["bound"] for side in sides]


def other_head(root: Path) -> None:
    head = make_head()
    head["lm_head.idx"], head["lm_head.scale"] = head["lm_head.idx"][:5, :8].copy(), head["lm_head.scale"][:5].copy()
    write_tensors(root / "export" / EXPORT / "lm_head.safetensors", head)


def other_embedding(root: Path) -> None:
    np.save(root / "model/embed_tokens_fp16.npy", np.ones((48, 16), np.float16))


def other_tokenizer(root: Path) -> None:
    vocab = {f"t{n}": n for n in range(43)}
    (root / "model/tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": []}}))


def other_config(root: Path) -> None:
    path = root / "model/config.json"
    path.write_text(path.read_text().replace('"hidden_size": 32', '"hidden_size": 64'))


FOREIGN: dict[str, tuple[Callable[[Path], object], str, Any, Any]] = {
    "head of 5 rows": (other_head, "lm_head.safetensors: lm_head.idx", "U8 [48, 32]", "U8 [5, 8]"),
    "narrow embedding": (other_embedding, "embed_tokens_fp16.npy", "[48, 32]", "[48, 16]"),
    "tokenizer of 43 ids": (other_tokenizer, "tokenizer.json", "44", "43"),
    "wide config": (other_config, "config.json", "32", "64"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_target_of_another_shape_is_refused_before_any_work(
    pair: Path, profile: Profile, tmp_path: Path, kind: str
) -> None:
    """Head, embedding, tokenizer and config are compared with the profile, whatever the traces say."""
    change, where, expected, found = FOREIGN[kind]
    shutil.copytree(pair, tmp_path / "pair")
    change(tmp_path / "pair/target")
    error = refused(
        open_sources(tmp_path / "pair", profile, traces="unbound.npz"),
        tmp_path,
        profile,
        CorruptError if "head" in kind else IdentityError,
    )
    assert str(error.where).endswith(where)
    assert (expected, found) == (error.expected, error.found)


def test_traces_of_another_target_say_which_is_which(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Expected is the given target's digest, found the one that the traces record: what stands at the place named."""
    shutil.copytree(pair, tmp_path / "pair")
    head = make_head(seed=9)
    write_tensors(tmp_path / "pair/target/export" / EXPORT / "lm_head.safetensors", head)
    error = refused(open_sources(tmp_path / "pair", profile), tmp_path, profile, IdentityError)
    identity = open_sources(pair, profile).traces.identity
    assert identity is not None
    assert str(error.where).endswith("bound.npz: identity.head_sha256")
    assert identity.head_sha256 == error.found
    assert str(error.expected).endswith("the given one's")
    assert "the target's head" in error.what or "another target's head" in error.what


def test_of_a_long_prompt_the_last_rows_feed(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """fc, k and v are fed the rows of a prompt that the ring still holds, and errors are told on these alone."""
    weights = make_weights()
    long = [record(weights, length=n, plen=p, seed=s) for s, (n, p) in enumerate([(60, 40), (50, 9), (52, 30)])]
    sources = with_traces(pair, profile, tmp_path, long, [])
    found = quantize(sources, tmp_path / "q", profile=profile, options=Options())
    rows = [
        sources.traces.features(s.index)[max(0, s.plen - GEOMETRY.window) : s.context_rows]
        for s in sources.traces.sequences
    ]
    blocks = GEOMETRY.block * sum(s.positions.size for s in sources.traces.sequences[:2])
    matrices = found.report["matrices"]
    assert len(rows[0]) + len(rows[1]) == matrices["fc.weight"]["rows"]
    assert len(rows[0]) + len(rows[1]) + blocks == matrices["layers.1.self_attn.v_proj.weight"]["rows"]
    weight = sources.checkpoint.tensor("fc.weight").astype(np.float64)
    left = weight - read_quant(found.root, GEOMETRY).dequantize("fc.weight")
    for kind, x in (("calibration", np.concatenate(rows[:2])), ("held_out", rows[2])):
        wide = x.astype(np.float64).T
        expected = np.linalg.norm(left @ wide) / np.linalg.norm(weight @ wide)
        assert matrices["fc.weight"]["error"][kind]["quantized"] == pytest.approx(expected, rel=1e-3)
