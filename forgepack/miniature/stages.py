"""The demo's stages, in order: each does real work through the library and says in one line what it found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgepack import hub
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.quant_report import Method
from forgepack.artifacts.tree import walk
from forgepack.errors import InternalError
from forgepack.miniature.compare import Variant, compare_variants
from forgepack.miniature.sabotage import SABOTAGES, spoiled_copy
from forgepack.miniature.scene import Scene
from forgepack.miniature.small_hub import small_hub
from forgepack.verify.findings.report import Depth, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How one sabotaged pair was checked: ``expected`` areas, and the ids of the rules that failed."""

    name: str
    story: str
    refused: bool
    rules: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Findings:
    """What the stages found so far; each stage adds its own."""

    layer_error: dict[str, float] = field(default_factory=dict)
    package: dict[str, Any] = field(default_factory=dict)
    report: Report | None = None
    variants: dict[str, Variant] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)


Stage = Callable[[Scene, Findings, Callable[[str], None]], str]


def fetch_stage(scene: Scene, _: Findings, note: Callable[[str], None]) -> str:
    """Fetch the checkpoint from a hub on loopback at the pinned commit."""
    pin = scene.profile.hub
    with small_hub(pin.repo, pin.commit, scene.miniature.checkpoint) as server:
        note(f"{pin.repo} @ {pin.commit[:12]} from {server.url}")
        report = hub.fetch_checkpoint(
            hub.FetchRequest(profile=scene.profile, out=scene.checkpoint),
            settings=hub.HubSettings(endpoint=server.url, token=False),
            effects=hub.Effects(sleep=time.sleep, clock=time.monotonic),
        )
    size = sum(f.bytes for f in report.files)
    return f"{len(report.files)} files, {size:,} bytes, hashed and locked"


def quantize_stage(scene: Scene, findings: Findings, note: Callable[[str], None]) -> str:
    """Quantize by GPTQ, and once more by plain rounding to compare with."""
    methods: tuple[tuple[Method, Path], ...] = (("gptq", scene.quant), ("rtn", scene.rounded))
    for method, out in methods:
        note(f"{method.upper()}: LUT4 matrices from calibration traces, mask scale {scene.profile.recipe.mask_scale}")
        mini = scene.miniature
        result = scene.quantize(out, calibration=mini.calibration, held_out=mini.held_out, method=method)
        findings.layer_error[method] = result.report["totals"]["lut4"]["held_out"]["quantized"]
    gptq, rtn = findings.layer_error["gptq"], findings.layer_error["rtn"]
    return f"held-out layer error {gptq:.4f} by GPTQ, {rtn:.4f} by rounding"


def emit_stage(scene: Scene, findings: Findings, note: Callable[[str], None]) -> str:
    """Emit the package twice, in two folders, and demand equal bytes."""
    note("authoring the Core AI package")
    result = scene.emit(scene.drafter)
    again = scene.work / "again" / "elsewhere"
    again.parent.mkdir()
    note("authoring it again in another folder")
    scene.emit(again)
    first, second = (_digests(root) for root in (scene.drafter, again))
    if first != second:
        raise InternalError("two builds from the same inputs differ", where=str(scene.work))
    findings.package = {
        "path": str(result.asset),
        "bytes": result.asset_bytes,
        "mlirb_sha256": result.program_sha256,
    }
    return f"{result.asset.name}, {result.asset_bytes:,} bytes; built twice, byte-identical"


def _digests(root: Path) -> dict[str, tuple[int, str]]:
    return {entry.path: hash_file(root / entry.path) for entry in walk(root) if entry.kind == "file"}


def verify_stage(scene: Scene, findings: Findings, note: Callable[[str], None]) -> str:
    """Verify the good pair at the deepest level: every constant, and both entries on the CPU."""
    note("every constant against its source, then both entries on the CPU")
    report = scene.verify(scene.pairing, Depth.RUN)
    findings.report = report
    if report.verdict != "pass":
        failed = ", ".join(check.id for check in report.checks if report.refuses(check))
        raise InternalError("the good pair was refused", where=str(scene.drafter), found=failed)
    return f"pass: {report.count('pass')} of {len(report.checks)} checks passed, none failed"


def replay_stage(scene: Scene, findings: Findings, note: Callable[[str], None]) -> str:
    """Replay the held-out traces with four variants."""
    note("held-out traces: unquantized, RTN, GPTQ, stale head")
    findings.variants = compare_variants(scene)
    good, stale = findings.variants["lut4_gptq"], findings.variants["stale_head"]
    return (
        f"GPTQ accepts {good.acceptance.mean:.2f} of {scene.profile.geometry.block - 1} drafts per block; "
        f"with a stale head {stale.acceptance.mean:.2f}"
    )


def sabotage_stage(scene: Scene, findings: Findings, note: Callable[[str], None]) -> str:
    """Spoil copies of the pair, one way each, and verify them."""
    for sabotage in SABOTAGES:
        note(f"{sabotage.name}: {sabotage.story}")
        folder = scene.work / "sabotage" / sabotage.name
        folder.mkdir(parents=True)
        report = scene.verify(spoiled_copy(scene, sabotage, folder))
        failed = tuple(c.id for c in report.failed("error") if c.cause is None) or tuple(
            c.id for c in report.failed("error")
        )
        fits = any(rule.startswith(sabotage.areas) for rule in failed)
        findings.refusals.append(
            Refusal(name=sabotage.name, story=sabotage.story, refused=report.verdict == "fail" and fits, rules=failed)
        )
    missed = [r.name for r in findings.refusals if not r.refused]
    if missed:
        raise InternalError("a sabotaged pair was not refused by the rule that fits", found=", ".join(missed))
    return f"{len(findings.refusals)} of {len(SABOTAGES)} spoiled pairs refused"


STAGES: tuple[tuple[str, Stage], ...] = (
    ("fetch", fetch_stage),
    ("quantize", quantize_stage),
    ("emit", emit_stage),
    ("verify", verify_stage),
    ("replay", replay_stage),
    ("sabotage", sabotage_stage),
)
