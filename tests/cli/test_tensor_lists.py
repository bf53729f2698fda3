"""A checkpoint with other tensors than the profile's: inspect and fetch name all that differ."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from forgepack.cli.main import run

MISSING = [f"candidate_selector.{name}" for name in ("hidden_projection.weight", "predecessor_codebook")]


def rewritten(path: Path) -> None:
    """Write a checkpoint's file again without its selector, and with a tensor of another drafter's."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body, out, kept = json.loads(data[8 : 8 + length]), data[8 + length :], {}, b""
    for name, entry in header.items():
        if name == "__metadata__" or name.startswith("candidate_selector"):
            continue
        start, end = entry["data_offsets"]
        out[name] = {**entry, "data_offsets": [len(kept), len(kept) + end - start]}
        kept += body[start:end]
    out["d2t"] = {"dtype": "I64", "shape": [4], "data_offsets": [len(kept), len(kept) + 32]}
    text = json.dumps(out).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + kept + bytes(32))


@pytest.mark.parametrize("part", ["checkpoint", "checkpoint/model.safetensors"])
def test_every_tensor_that_differs_is_named(pair: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    """Three are missing and one is extra: the folder and the file alone say so, and exit 1."""
    profile = ["--profile", str(pair / "profile.json")]
    assert 0 == run(["inspect", str(pair / part), *profile])
    rewritten(pair / "checkpoint/model.safetensors")
    capsys.readouterr()
    assert 1 == run(["inspect", str(pair / part), *profile])
    told = capsys.readouterr().out
    assert [] == [name for name in [*MISSING, "candidate_selector.successor_codebook", "d2t"] if name not in told]


def test_fetch_names_them_all(pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the first alone."""
    (pair / "checkpoint/checkpoint.lock.json").unlink()
    rewritten(pair / "checkpoint/model.safetensors")
    profile = ["--profile", str(pair / "profile.json")]
    assert 4 == run(["fetch", "--adopt", str(pair / "checkpoint"), "--out", str(tmp_path / "out"), *profile])
    told = capsys.readouterr().err
    assert [] == [name for name in [*MISSING, "d2t", "4 tensors"] if name not in told]
