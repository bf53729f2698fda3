"""Executing on the CPU: one load, many calls, nothing left behind, failures told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.aimodel import AssetFiles, read_asset_files
from forgepack.coreai_backend.execute import open_session
from forgepack.coreai_backend.process import DamagedAssetError
from forgepack.coreai_backend.target_assets import HeadWeights, author_chunk_standin
from forgepack.errors import CorruptError
from tests.coreai_backend.heads import METADATA, logits_of


def test_head_package_computes_the_head(head: HeadWeights, head_asset: AssetFiles) -> None:
    """Logits of several calls on one load are within float16's rounding of the float32 reference."""
    with open_session(head_asset) as session:
        assert session.entries == ("h8",)
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((1, 48, 1, 8)).astype(np.float16) * np.float16(30)
            found = session.call("h8", {"x": x})["logits"].astype(np.float32)
            expected = logits_of(head, x)
            assert np.abs(found - expected).max() < 3e-3 * np.abs(expected).max()


def test_chunk_standin_has_its_entries_and_outputs(tmp_path: Path) -> None:
    """A stand-in offers the true entry points and outputs, and no layer's maths."""
    author_chunk_standin(
        tmp_path / "chunk.aimodel",
        hidden=16,
        entries={"v8_8k": 8, "p64_8k": 64},
        outputs=("y", "tap1"),
        metadata=METADATA,
    )
    with open_session(read_asset_files(tmp_path / "chunk.aimodel")) as session:
        assert session.entries == ("p64_8k", "v8_8k")
        found = session.call("p64_8k", {"x": np.ones((1, 16, 1, 64), np.float16)})
    assert {name: (value.shape, float(value.max())) for name, value in found.items()} == {
        "y": ((1, 16, 1, 64), 0.5),
        "tap1": ((1, 16, 1, 64), 0.25),
    }


def test_an_unknown_entry_point_is_told(head_asset: AssetFiles) -> None:
    """Asking for an entry point that is not there is an error of ours, and the session goes on."""
    with open_session(head_asset) as session:
        with pytest.raises(CorruptError) as caught:
            session.call("draft", {})
        assert caught.value.code == "entry-missing"
        assert session.call("h8", {"x": np.ones((1, 48, 1, 8), np.float16)})["logits"].shape == (8, 101)


def test_wrong_inputs_do_not_crash_the_caller(head_asset: AssetFiles) -> None:
    """Inputs that the runtime refuses, or dies of, end in an error of ours."""
    with open_session(head_asset) as session, pytest.raises(DamagedAssetError):
        session.call("h8", {"x": np.ones((1, 3), np.float16)})


def test_nothing_is_left_behind(head_asset: AssetFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core AI leaves an empty folder of the lowered program in TMPDIR: ours is private and removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_session(head_asset) as session:
        session.call("h8", {"x": np.ones((1, 48, 1, 8), np.float16)})
        assert list(tmp_path.iterdir()) != []
    assert "ODIE" in session.noise  # what the child said is complete once it has ended
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_asset_is_refused_at_load(copy_of: Path) -> None:
    """Loading truncated bytecode for execution is an error of ours."""
    program = copy_of / "main.mlirb"
    program.write_bytes(program.read_bytes()[:-4000])
    with pytest.raises(DamagedAssetError), open_session(read_asset_files(copy_of)):
        pass
