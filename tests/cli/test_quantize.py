"""The command quantize: outcome, streams, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.quant import read_quant
from forgepack.cli.main import run
from tests.synthetic import GEOMETRY, make_weights, profile_json
from tests.synthetic_files import write_checkpoint, write_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_pair(tmp_path_factory.mktemp("pair"))
    (root / "profile.json").write_text(json.dumps(profile_json()))
    return root


def quantize(pair: Path, out: Path, *more: str, checkpoint: Path | None = None, traces: str = "bound.npz") -> int:
    paths = ["--traces", str(pair / traces), "--target", str(pair / "target"), "--out", str(out)]
    profile = ["--profile", str(pair / "profile.json")]
    return run(["quantize", str(checkpoint or pair / "checkpoint"), *paths, *profile, *more])


def test_quantize_writes_a_folder_and_says_its_errors(
    pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The outcome is on stdout, messages on stderr; the folder reads back."""
    assert quantize(pair, tmp_path / "q") == 0
    out, err = capfd.readouterr()
    assert "held-out" in out
    assert "plain rounding" in out
    assert err.startswith("quantize: ")
    assert read_quant(tmp_path / "q", GEOMETRY).report.method == "gptq"


def test_json_is_the_report(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--json prints what report.json holds, byte for byte."""
    assert quantize(pair, tmp_path / "q", "--json", "--method", "rtn", "--threads", "2") == 0
    assert (tmp_path / "q" / "report.json").read_text() == capfd.readouterr().out


def test_unbound_traces_are_noted(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Traces without identity are taken with a word about it."""
    assert quantize(pair, tmp_path / "q", traces="unbound.npz") == 0
    assert "unbound" in capfd.readouterr().err


def test_dry_run_writes_nothing(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--dry-run counts matrices, rows, memory and disk, and leaves the folder alone."""
    assert quantize(pair, tmp_path / "q", "--dry-run", "--json", "--held-out", str(pair / "held-out.npz")) == 0
    planned = json.loads(capfd.readouterr().out)
    assert [] == list(tmp_path.iterdir())
    assert len(planned["matrices"]) == 19
    assert planned["memory"] > 0
    assert planned["disk"]["free"] > 0
    assert quantize(pair, tmp_path / "q", "--held-out", str(pair / "held-out.npz"), "--json") == 0
    report = json.loads(capfd.readouterr().out)
    fc = report["matrices"]["fc.weight"]
    down = report["matrices"]["layers.0.mlp.down_proj.weight"]
    rows = planned["rows"]
    assert (rows["calibration"]["context"], rows["held_out"]["context"]) == (fc["rows"], fc["held_out_rows"])
    assert (rows["calibration"]["blocks"], rows["held_out"]["blocks"]) == (down["rows"], down["held_out_rows"])


def test_dry_run_prints_the_steps(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every matrix stands in the order of the work, numbered by step, with rows, operations and memory."""
    assert quantize(pair, tmp_path / "q", "--dry-run", "--json") == 0
    planned = json.loads(capfd.readouterr().out)
    names = [name for step in planned["steps"] for name in step["matrices"]]
    assert sorted(planned["matrices"]) == sorted(names)
    assert ["fc.weight"] == planned["steps"][0]["matrices"]
    assert max(step["memory"] for step in planned["steps"]) == planned["memory"]
    assert sum(step["operations"] for step in planned["steps"]) == pytest.approx(planned["operations"])
    assert quantize(pair, tmp_path / "q", "--dry-run") == 0
    lines = capfd.readouterr().out.splitlines()
    assert names == [line[4:].split()[0] for line in lines[1 : len(names) + 1]]
    numbers = [int(line[:4]) for line in lines[1 : len(names) + 1] if line[:4].strip()]
    assert list(range(1, len(planned["steps"]) + 1)) == numbers
    assert f"{planned['disk']['needed']:,} bytes while it runs" in lines[-2]
    assert [] == list(tmp_path.iterdir())


def test_dry_run_on_a_small_disk_ends_in_code_5(
    pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is printed all the same, then what the disk lacks."""
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert quantize(pair, tmp_path / "q", "--dry-run") == 5
    out, err = capfd.readouterr()
    assert "dry run: nothing was written" in out
    assert "1000 bytes free" in err


def broken_lock(pair: Path, root: Path) -> Path:
    folder = shutil.copytree(pair / "checkpoint", root / "checkpoint")
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-3] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    return folder


def nan_weight(root: Path) -> Path:
    weights = make_weights()
    weights["norm.weight"][0] = np.nan
    return write_checkpoint(root / "checkpoint", weights)


def test_exit_codes(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """2 for usage and paths that do not exist, 4 for inputs of the wrong identity or content, 5 for output."""
    out = tmp_path / "q"
    assert quantize(pair, out, "--method", "awq") == 2
    assert quantize(pair, out, "--mask-scale", "1.5") == 2
    assert quantize(pair, out, traces="none.npz") == 2
    assert quantize(pair, tmp_path / "no" / "q") == 2
    assert quantize(pair, tmp_path / "no" / "q", "--dry-run") == 2
    assert quantize(pair, out, traces="held-out.npz") == 2
    assert quantize(pair, out, checkpoint=broken_lock(pair, tmp_path / "edited")) == 4
    assert "lock" in capfd.readouterr().err
    assert quantize(pair, out, checkpoint=nan_weight(tmp_path / "nan"), traces="unbound.npz") == 4
    assert "norm.weight" in capfd.readouterr().err
    (tmp_path / "cut.npz").write_bytes((pair / "bound.npz").read_bytes()[:-40])
    assert (
        run(
            [
                *("quantize", str(pair / "checkpoint"), "--traces", str(tmp_path / "cut.npz"), "--out", str(out)),
                *("--target", str(pair / "target"), "--profile", str(pair / "profile.json")),
            ]
        )
        == 4
    )
    assert not out.exists()
    out.mkdir()
    assert quantize(pair, out) == 2
    assert "--force" in capfd.readouterr().err
