"""A second target of the tiny pair, evidence about it, and the attestation that both give."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.attestation import own_digest, read_attestation
from forgepack.artifacts.files import hash_file
from forgepack.canonical import digest_json, dump_canonical
from forgepack.profile import Profile
from forgepack.release.attest.evidence import read_evidence
from forgepack.release.attest.make import AttestInputs, AttestResult, attest
from forgepack.release.replay.drafter_identity import drafter_files
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.factory import EXPORT, tiny_profile, write_layer
from tests.verify.sabotage import Change, put

SIBLING = "tiny_sibling"
MANIFEST = "sibling/coreai/manifest.json"
CONFIG = "sibling/model/config.json"
LAYER = f"sibling/export/{SIBLING}/layer_00.safetensors"
HEAD = f"sibling/export/{SIBLING}/lm_head.safetensors"


def make_sibling(root: Path) -> Path:
    """Write root/sibling: the target again with another name, another config and another layer."""
    folder = Path(shutil.copytree(root / "target", root / "sibling"))
    (folder / "export" / EXPORT).rename(folder / "export" / SIBLING)
    put(MANIFEST, "export", value=SIBLING)(root)
    put(CONFIG, "fine_tuned", value=True)(root)
    write_layer(root / LAYER, np.random.default_rng(99))
    return folder


def replay_report(drafter: Path, target: Path, profile: Profile) -> dict[str, Any]:
    """Return a report as a replay of the drafter on the target would write it, whose numbers fit each other."""
    files = dict(drafter_files(drafter, profile))
    (export,) = [path for path in (target / "export").iterdir() if path.is_dir()]
    digests = {
        "head_sha256": hash_file(export / "lm_head.safetensors")[1],
        "embedding_sha256": hash_file(target / "model/embed_tokens_fp16.npy")[1],
        "tokenizer_sha256": hash_file(target / "model/tokenizer.json")[1],
    }
    acceptance = {
        "mean": 1.5,
        "standard_error": 0.5,
        "at_least": [1.0, 0.5, 0.0],
        "histogram": [0, 1, 1, 0],
        "blocks": 2,
        "sequences": 1,
        "tokens_per_call": 2.5,
        "draft_acceptance": 0.5,
    }
    return {
        "schema": "forgepack.replay/2",
        "tool": {"name": "forgepack", "version": "0"},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "workload": "tiny",
        "target": {"export": export.name, **digests, "sha256": digest_json(digests)},
        "traces": {"sha256": "ab" * 32, "identity": "matches", "export": export.name, "sequences": 1, "blocks": 2},
        "statistics": {"confidence": 0.95, "rounds": 1, "seed": 0, "resampled": "sequences"},
        "ring_rows": 16,
        "drafters": [
            {
                "role": "reference",
                "path": "drafter",
                "kind": "package",
                "files": files,
                "sha256": digest_json(files),
                "mask_scale": 0.7,
                "deployed_mask_scale": True,
                "head": "package",
                "acceptance": acceptance,
                "as_recorded": False,
                "calibration": {"state": "unknown"},
                "recorded": {"state": "unknown"},
                "by_position": {"accepted": []},
                "ring": {},
                "per_sequence": [{"sequence": 0, "blocks": 2, "accepted": 3}],
            }
        ],
    }


def write_evidence(root: Path, change: Callable[[dict[str, Any]], object] | None = None) -> Path:
    """Write root/evidence.json about drafter and sibling, changed by ``change``."""
    report = replay_report(root / "drafter", root / "sibling", tiny_profile())
    if change is not None:
        change(report)
    path = root / "evidence.json"
    path.write_bytes(dump_canonical(report))
    return path


def attested(root: Path, *, depth: str = "hash", profile: Profile | None = None) -> AttestResult:
    """Attest root/drafter for root/sibling by root/evidence.json."""
    return attest(
        AttestInputs(
            sources=find_sources(root / "drafter", root / "sibling"),
            profile=profile or tiny_profile(),
            evidence=read_evidence(root / "evidence.json", "evidence"),
            depth=Depth[depth.upper()],
            seconds=60,
        )
    )


def write_attestation(root: Path, name: str = "attestation.json") -> Path:
    """Attest the sibling and write the attestation; the pair must pass."""
    if not (root / "evidence.json").exists():
        write_evidence(root)
    result = attested(root)
    assert result.attestation is not None, [check.id for check in result.report.failed("error")]
    path = root / name
    path.write_bytes(dump_canonical(result.attestation))
    return path


def forged(path: Path, change: Change | Callable[[dict[str, Any]], object]) -> None:
    """Change an attestation in place and bring its own digest up to date, as a careful forger would."""
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_bytes(dump_canonical({**raw, "sha256": own_digest(raw)}))


def judged(
    root: Path,
    depth: str = "hash",
    *,
    target: str = "sibling",
    attestations: tuple[Path, ...] = (),
    evidence: tuple[Path, ...] = (),
) -> Report:
    """Verify root/drafter against a target with attestations and evidence."""
    from dataclasses import replace

    given = ExtraFiles(
        attestations=tuple(read_attestation(path, path.stem) for path in attestations),
        evidence=tuple(read_evidence(path, path.stem) for path in evidence),
    )
    sources = replace(find_sources(root / "drafter", root / target), extra_files=given)
    return verify(OpenPair(sources, tiny_profile(), Depth[depth.upper()], seconds=60))
