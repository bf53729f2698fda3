"""A package of version 0.1: what its sidecar could not bind is a note, what it did bind is judged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from forgepack.json_values import lookup
from forgepack.profile import load_profile
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.emission import forge_binding
from tests.verify.running import check_of, explain_all, roots, told, verified

COMPAT = Path(__file__).parents[2] / "fixtures/compat/0.1.0"
LAYER = "export/tiny_lr64mix/layer_03.safetensors"


def judged(root: Path, depth: Depth = Depth.HASH) -> Report:
    """Verify the drafter and the target of a release of version 0.1."""
    return verify(OpenPair(find_sources(root / "drafter", root), load_profile(str(COMPAT / "profile.json")), depth))


def test_what_version_1_could_not_bind_is_a_note(tmp_path: Path) -> None:
    """Layers that it bound without reading them, and files of model/: the pair passes, and each is named."""
    root = Path(shutil.copytree(COMPAT / "release", tmp_path / "release"))
    (root / "model/added_tokens.json").write_text("{}")
    report = judged(root)
    assert "pass" == report.verdict, explain_all(report)
    assert "note" == check_of(report, "CTR084").severity
    text = told(report, "CTR084")
    assert "layer_03.safetensors" in text
    assert "model/added_tokens.json" in text


@pytest.mark.parametrize("path", ["target.model_files", "quantization.calibration.traces.fingerprint"])
def test_a_claim_of_version_1_frees_from_nothing(pair: Path, path: str) -> None:
    """A binding with fields of today's version is not taken for one of version 1, whichever of them it keeps."""

    def older(bound: dict[str, Any]) -> None:
        *parents, key = path.split(".")
        node, value = bound, lookup(bound, path)
        bound["schema"] = "forgepack.sidecar/1"
        bound["target"].pop("model_files", None)
        for side in ("traces", "held_out"):
            for name in ("fingerprint", "overlap", "rows_beyond_tokens"):
                bound["quantization"]["calibration"][side].pop(name, None)
        for parent in parents:
            node = node[parent]
        node[key] = value

    forge_binding(pair, older)
    report = verified(pair)
    assert ["CTR001"] == roots(report), explain_all(report)
    assert path.rpartition(".")[2] in told(report, "CTR001")


def test_what_version_1_did_bind_is_judged(tmp_path: Path) -> None:
    """A layer of another size, a lost one, and a file that it did not list are refused as ever."""
    root = Path(shutil.copytree(COMPAT / "release", tmp_path / "release"))
    (root / LAYER).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 3\n")
    assert ["FMT010"] == roots(judged(root))
    (root / LAYER).unlink()
    assert ["CTR023"] == roots(judged(root))
    shutil.copy(COMPAT / "release" / LAYER, root / LAYER)
    (root / "coreai/extra.bin").write_bytes(b"x")
    assert ["CTR024"] == roots(judged(root, Depth.HEADER))
