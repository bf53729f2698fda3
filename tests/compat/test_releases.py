"""Each released version's package still passes, and each document that it wrote is still read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.lock import read_lock
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.traces import read_traces
from forgepack.cli.main import run
from forgepack.profile import load_profile
from forgepack.release.recipe.lock import read_build_lock
from forgepack.release.replay.reading import read_replay_report

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / "fixtures/compat"
VERSIONS = sorted(path.name for path in COMPAT.iterdir())
SOURCES = ("--quant", "quant", "--checkpoint", "checkpoint", "--profile", "profile.json")


@pytest.fixture(params=VERSIONS)
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what a version left, as the current folder."""
    root = COMPAT / str(request.param)
    monkeypatch.chdir(root)
    monkeypatch.delenv("FORGEPACK_PROFILE", raising=False)
    return root


def statuses(report: Mapping[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in report["checks"]}


def test_every_version_of_the_changelog_has_its_folder() -> None:
    """A version that is named by the changelog has left its package, and no folder is of another."""
    named = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == VERSIONS


def test_its_package_passes_at_the_default_depth(release: Path) -> None:
    """Package, target, quantized drafter and checkpoint are accepted: exit 0."""
    assert 0 == run(["-q", "--isolated", "verify", "release/drafter", "--target", "release", *SOURCES])


def test_its_release_passes_with_the_statuses_of_its_time(release: Path, tmp_path: Path) -> None:
    """The whole release is accepted, and no rule of that version says anything else today."""
    out = tmp_path / "report.json"
    args = ["verify", "--bundle", "release", *SOURCES, "--depth", "lineage", "--report", f"json={out}"]
    assert 0 == run(["-q", "--isolated", *args])
    then, now = statuses(json.loads((release / "report.json").read_bytes())), statuses(json.loads(out.read_bytes()))
    assert then == {ident: now[ident] for ident in then}


def test_its_report_is_a_baseline(release: Path) -> None:
    """The report that it wrote is read as the baseline of a later build."""
    args = ["--bundle", "release", *SOURCES, "--depth", "header", "--baseline", "report.json"]
    assert 0 == run(["-q", "--isolated", "verify", *args])


def test_its_documents_are_read(release: Path) -> None:
    """Lock, quantized drafter, traces, build's lock and replay's report are read without a fault."""
    geometry = load_profile("profile.json").geometry
    readers: Mapping[str, Callable[[Path], object]] = {
        "checkpoint": read_lock,
        "quant": lambda path: read_quant(path, geometry),
        "held-out.npz": lambda path: read_traces(path, geometry),
        "forgepack.lock": read_build_lock,
    }
    for name, read in readers.items():
        assert read(release / name) is not None
    assert () == read_replay_report(release / "replay.json").faults


def test_its_gate_passes(release: Path) -> None:
    """Its policy over its report of a replay is met by its quantized drafter: exit 0."""
    args = ["replay.json", "--policy", "gate_policy.json", "--drafter", "quant", "--profile", "profile.json"]
    assert 0 == run(["-q", "--isolated", "gate", *args])


def test_what_it_measured_is_measured_again(release: Path, tmp_path: Path) -> None:
    """A replay of its drafters on its traces gives the acceptance that its report tells."""
    out = tmp_path / "replay.json"
    drafters = ["quant", "--against", "checkpoint", "--traces", "held-out.npz", "--target", "release"]
    args = ["replay", *drafters, "--workload", "tiny", "--profile", "profile.json", "--report", str(out)]
    assert 0 == run(["-q", "--isolated", *args])
    then, now = (json.loads(path.read_bytes())["drafters"] for path in (release / "replay.json", out))
    assert [one["acceptance"]["mean"] for one in then] == [one["acceptance"]["mean"] for one in now]
