"""Inputs that do not belong together, or can't be computed with: refused before anything is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.traces import read_traces
from forgepack.errors import IdentityError, MissingError, NumericsError, UsageError
from forgepack.profile import Profile
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from tests.synthetic import GEOMETRY, make_weights
from tests.synthetic_files import identity_json, open_sources, write_checkpoint


def run(sources: Sources, out: Path, profile: Profile, **options: Any) -> dict[str, Any]:
    return quantize(sources, out, profile=profile, options=Options(**options)).report


def test_one_sequence_needs_a_held_out_file(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """A single sequence can't be split."""
    with pytest.raises(UsageError, match="--held-out"):
        run(open_sources(pair, profile, traces="held-out.npz"), tmp_path / "q", profile)


def test_unbound_traces_are_taken_and_recorded(pair: Path, profile: Profile, made: Path, tmp_path: Path) -> None:
    """Traces without identity give the same weights and are recorded as unbound."""
    bound = read_quant(made, GEOMETRY).report.raw
    unbound = run(open_sources(pair, profile, traces="unbound.npz"), tmp_path / "u", profile)
    assert (True, False) == (bound["inputs"]["calibration"]["bound"], unbound["inputs"]["calibration"]["bound"])
    assert unbound["inputs"]["calibration"]["identity"] is None
    assert bound["matrices"] == unbound["matrices"]


CHANGES: dict[str, dict[str, Any]] = {
    "another drafter": {"drafter": {"model_sha256": "0" * 64}},
    "other taps": {"taps": [0, 1, 3]},
}


@pytest.mark.parametrize("change", [*CHANGES, "export", "lm_head_sha256", "tokenizer_sha256", "embedding_sha256"])
def test_bound_traces_of_another_pair_are_refused(pair: Path, profile: Profile, tmp_path: Path, change: str) -> None:
    """Each part of the identity is compared: drafter, export, head, tokenizer, embedding and taps."""
    identity = identity_json(pair / "checkpoint", pair / "target")
    if change in CHANGES:
        identity |= CHANGES[change]
    else:
        identity["target"] = identity["target"] | {change: "0" * 64}
    sources = open_sources(pair, profile)
    arrays = {name: sources.traces.archive.read(name) for name in sources.traces.archive.arrays}
    arrays["forgepack_identity"] = np.frombuffer(json.dumps(identity).encode(), np.uint8)
    np.savez(tmp_path / "other.npz", allow_pickle=False, **arrays)
    traces = read_traces(tmp_path / "other.npz", GEOMETRY)
    other = Sources(checkpoint=sources.checkpoint, target=sources.target, traces=traces)
    with pytest.raises(IdentityError) as caught:
        run(other, tmp_path / "q", profile)
    assert (4, "quantize-identity") == (caught.value.exit_code, caught.value.code)
    assert not (tmp_path / "q").exists()


def test_a_target_of_other_taps_is_refused(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """A manifest whose taps are shifted by one is not the profile's target."""
    shutil.copytree(pair, tmp_path / "pair")
    manifest = tmp_path / "pair" / "target" / "coreai" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("[0, 2, 3]", "[1, 3, 4]"))
    with pytest.raises(IdentityError, match="taps"):
        run(open_sources(tmp_path / "pair", profile), tmp_path / "q", profile)


def test_a_target_without_export_is_refused(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Without the export there is no head to bind to."""
    shutil.copytree(pair, tmp_path / "pair")
    shutil.rmtree(tmp_path / "pair" / "target" / "export")
    with pytest.raises(MissingError, match="--target-export"):
        run(open_sources(tmp_path / "pair", profile), tmp_path / "q", profile)


@pytest.mark.parametrize("scale", [0.0, -0.7, 1.5, float("nan")])
def test_a_mask_scale_out_of_range_is_refused(
    sources: Sources, profile: Profile, tmp_path: Path, scale: float
) -> None:
    """A mask scale is over 0 and at most 1."""
    with pytest.raises(UsageError, match="mask scale"):
        run(sources, tmp_path / "q", profile, mask_scale=scale)


def test_overflow_of_finite_weights_is_named(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Weights that are finite but too large for their rows name the matrix where numbers end."""
    weights = make_weights()
    weights["layers.1.input_layernorm.weight"][:] = 3e38
    shutil.copytree(pair / "target", tmp_path / "target")
    write_checkpoint(tmp_path / "checkpoint", weights)
    shutil.copy(pair / "unbound.npz", tmp_path)
    for threads in (1, 2):
        with pytest.raises(NumericsError, match=r"layers\.1\.attention_conv"):
            run(open_sources(tmp_path, profile, traces="unbound.npz"), tmp_path / "q", profile, threads=threads)


def test_the_same_file_is_not_held_out(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """Rows that calibrated judge nothing."""
    with pytest.raises(UsageError, match="are the calibration traces"):
        run(open_sources(pair, profile, held_out="bound.npz"), tmp_path / "q", profile)


def test_held_out_sequences_without_blocks_are_refused(pair: Path, profile: Profile, tmp_path: Path) -> None:
    """No error is reported of rows that are not there."""
    arrays = {
        name: open_sources(pair, profile).traces.archive.read(name) for name in ("tokens_0", "plen_0", "feats_0")
    }
    np.savez(tmp_path / "none.npz", allow_pickle=False, m_0=np.zeros(0, np.int8), **arrays)
    sources = open_sources(pair, profile)
    empty = Sources(
        checkpoint=sources.checkpoint,
        target=sources.target,
        traces=sources.traces,
        held_out=read_traces(tmp_path / "none.npz", GEOMETRY),
    )
    with pytest.raises(NumericsError, match="no recorded block"):
        run(empty, tmp_path / "q", profile)
