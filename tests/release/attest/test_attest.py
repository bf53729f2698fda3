"""The miniature's package is measured with a sibling target, attested by that replay, and verified with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from forgepack.cli.main import run
from forgepack.miniature.scene import Scene

SIBLING = "mini_sibling"


def make_sibling(source: Path, out: Path) -> None:
    """Copy a target under another export's name, with another config: what a fine-tune's release looks like."""
    shutil.copytree(source, out)
    manifest, config = out / "coreai/manifest.json", out / "model/config.json"
    raw = json.loads(manifest.read_bytes())
    (out / "export" / raw["export"]).rename(out / "export" / SIBLING)
    manifest.write_text(json.dumps({**raw, "export": SIBLING}))
    config.write_text(json.dumps({**json.loads(config.read_bytes()), "fine_tuned": True}))


def record_again(source: Path, out: Path) -> None:
    """Write traces that say they were recorded with the sibling."""
    with np.load(source) as traces:
        arrays = {name: traces[name] for name in traces.files}
    identity = json.loads(arrays["forgepack_identity"].tobytes())
    identity["target"]["export"] = SIBLING
    arrays["forgepack_identity"] = np.frombuffer(json.dumps(identity).encode(), np.uint8)
    np.savez(out, **arrays)


def test_a_real_replay_attests_a_sibling(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Replay, attest, verify: each reads what the former wrote; traces of the first target are no evidence."""
    make_sibling(scene.miniature.target, tmp_path / "sibling")
    record_again(scene.miniature.held_out, tmp_path / "sibling.npz")
    pair = [str(scene.drafter), "--target", str(tmp_path / "sibling"), "--profile", "mini"]
    for name, traces in (("own", scene.miniature.held_out), ("sibling", tmp_path / "sibling.npz")):
        report = ["--report", str(tmp_path / f"{name}.json")]
        assert 0 == run(["replay", *pair, "--traces", str(traces), "--workload", "held-out", *report])
    out = tmp_path / "attestation.json"
    capsys.readouterr()
    assert 1 == run(["attest", *pair, "--evidence", str(tmp_path / "own.json"), "--out", str(out)])
    assert "the traces hold another target's states" in capsys.readouterr().out
    assert 0 == run(["attest", *pair, "--evidence", str(tmp_path / "sibling.json"), "--out", str(out)])
    assert "workload held-out" in capsys.readouterr().out
    assert 1 == run(["verify", *pair])
    given = ["--attestation", str(out), "--evidence", str(tmp_path / "sibling.json")]
    assert 0 == run(["verify", *pair, *given, "--quant", str(scene.quant), "--checkpoint", str(scene.checkpoint)])
