"""The synthetic pair with two quantizations of its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from forgepack.cli.main import run
from tests.synthetic import profile_json
from tests.synthetic_files import write_pair


def build_quantized(folder: Path) -> Path:
    """Write checkpoint, target, traces, profile.json, gptq/ and rtn/ into a folder and return where they lie."""
    root = write_pair(folder)
    (root / "profile.json").write_text(json.dumps(profile_json()))
    for method in ("gptq", "rtn"):
        paths = ["--traces", str(root / "bound.npz"), "--target", str(root / "target"), "--out", str(root / method)]
        named = ["--profile", str(root / "profile.json"), "--method", method, "-q"]
        assert run(["quantize", str(root / "checkpoint"), *paths, *named]) == 0
    return root
