"""The synthetic release: readable by the tool, bound together, the same bytes from the same seed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scales import make_scale
from benchmarks.synthetic import MANIFEST, Release, bytes_needed, make_release
from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.target import locate_target, read_target
from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.profile import load_profile
from forgepack.quantize.sources import Sources, identify


def traces_of(release: Release, split: str = "calibration") -> TraceSet:
    return read_traces(release.traces(split), release.scale.profile.geometry)


def test_the_tool_takes_every_part_and_finds_them_bound(small_release: Release) -> None:
    """Checkpoint, target and traces pass the readers and the identity check of a quantization."""
    profile = load_profile(str(small_release.profile))
    sources = Sources(
        checkpoint=read_checkpoint(small_release.checkpoint, profile, hashed=True),
        target=read_target(locate_target(small_release.target)),
        traces=traces_of(small_release),
        held_out=traces_of(small_release, "held_out"),
    )
    assert identify(sources, profile)["target"]["export"] == "synthetic_small"
    assert sources.target.tokenizer.size == profile.target.used_tokens
    assert sources.target.tokenizer.tokens[profile.geometry.mask_token] == profile.target.mask_token_text


def test_the_number_of_threads_does_not_change_a_byte(small_release: Release, tmp_path: Path) -> None:
    """One worker and two record the same digests."""
    other = make_release(tmp_path, "small", workers=1)
    assert (small_release.root / MANIFEST).read_bytes() == (other.root / MANIFEST).read_bytes()


def test_another_seed_gives_other_weights(small_release: Release, tmp_path: Path) -> None:
    """The seed decides the content."""
    other = make_release(tmp_path, "small", seed=2)
    ours, theirs = (r.checkpoint / "model.safetensors" for r in (small_release, other))
    assert ours.stat().st_size == theirs.stat().st_size
    assert ours.read_bytes() != theirs.read_bytes()


def test_a_second_run_takes_what_is_there_and_mends_what_is_not(small_release: Release, tmp_path: Path) -> None:
    """Whole parts are taken, a truncated file makes its part anew, and digests find an edit of equal size."""
    root = tmp_path / "small"
    shutil.copytree(small_release.root, root)
    said: list[str] = []
    make_release(tmp_path, "small", tell=said.append)
    assert ["checkpoint: taken as it is", "target: taken as it is", "traces: taken as it is"] == said

    traces = root / "traces" / "held_out.npz"
    whole = traces.read_bytes()
    traces.write_bytes(whole[:-1])
    head = root / "target" / "export" / "synthetic_small" / "lm_head.safetensors"
    data = bytearray(head.read_bytes())
    data[-1] ^= 1
    head.write_bytes(data)
    said.clear()
    make_release(tmp_path, "small", rehash=True, tell=said.append)
    assert ["checkpoint: taken as it is", "target: writing", "traces: writing"] == said
    assert whole == traces.read_bytes()


def test_features_are_like_a_models(small_release: Release) -> None:
    """Outlier channels stand out, taps are correlated, and a few directions hold much of the energy."""
    traces = traces_of(small_release)
    hidden, taps = traces.geometry.hidden, len(traces.geometry.taps)
    rows = np.concatenate([traces.features(s.index) for s in traces.sequences]).astype(np.float64)
    size = np.sqrt(np.mean(rows**2, axis=0))
    assert size.max() > 20 * np.median(size)

    unit = ((rows - rows.mean(axis=0)) / rows.std(axis=0)).reshape(len(rows), taps, hidden)
    neighbours = np.mean(unit[:, :-1] * unit[:, 1:], axis=(0, 2))
    assert neighbours.min() > 0.3

    energy = np.linalg.svd(unit[:, 0], compute_uv=False) ** 2
    flat = hidden // 16 / hidden
    assert energy[: hidden // 16].sum() / energy.sum() > 3 * flat


def test_the_recorded_schedule_accepts_about_a_third(small_release: Release) -> None:
    """Accepted drafts lie in 0..7 and every walked block starts inside its sequence."""
    accepted = np.concatenate([s.accepted for s in traces_of(small_release).sequences])
    assert 1.0 < accepted.mean() < 4.0


def test_full_scale_has_the_releases_geometry_and_never_its_name() -> None:
    """The full release has the real shapes, another name, repository and commit, and fits 30 GB."""
    full, release = make_scale("full"), load_profile()
    assert release.geometry == full.profile.geometry
    assert release.recipe == full.profile.recipe
    assert release.name != full.profile.name
    assert release.hub.repo != full.profile.hub.repo
    assert release.hub.commit != full.profile.hub.commit
    assert 9e9 < bytes_needed(full) < 15e9


def test_the_command_prints_where_the_release_lies(tmp_path: Path, repository: Path) -> None:
    """The root goes to stdout, progress to stderr."""
    command = [sys.executable, "-m", "benchmarks.synthetic", str(tmp_path), "--scale", "small"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert f"{tmp_path / 'small'}\n" == done.stdout
    assert "traces: writing" in done.stderr
    assert json.loads((tmp_path / "small" / MANIFEST).read_text())["seed"] == 1


@pytest.mark.parametrize("module", ["synthetic", "run"])
def test_a_scratch_directory_in_the_repository_is_refused(module: str, repository: Path) -> None:
    """Gigabytes must never land among the sources."""
    command = [sys.executable, "-m", f"benchmarks.{module}", str(repository / "build" / "scratch")]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "outside the repository" in done.stderr
