"""A program of somebody else's, as it is type-checked against the installed package: tests/test_api.py."""

from __future__ import annotations

import datetime
from pathlib import Path

from forgepack import api


def refused(drafter: Path, target: str) -> list[str]:
    """Return the ids of the rules that refuse a pair."""
    accept = api.Acceptance(waivers=Path("waivers.toml"), today=datetime.date(2026, 12, 1))
    report: api.Report = api.verify(drafter, target=target, depth="hash", accept=accept, progress=show)
    return [check.id for check in report.checks if report.refuses(check)]


def show(now: api.Progress) -> None:
    """Take one moment of a long call."""
    assert now.total >= 0


def release(work: Path) -> str:
    """Make a release and return the digest of its release.json."""
    try:
        api.fetch(work / "checkpoint", token="secret")
        parts = api.TargetParts(model=work / "model", build=work / "coreai")
        quant: api.QuantizeResult = api.quantize(work / "checkpoint", work / "quant", traces="t.npz", target=parts)
        emitted: api.EmitResult = api.emit(quant.root, work / "d", checkpoint=work / "checkpoint", target=parts)
        bundled: api.BundleResult = api.bundle(emitted.root, work / "release", target=parts)
    except api.IdentityError as err:
        return f"{err.what}: {err.exit_code}"
    return bundled.release_sha256


def measured(report: api.ReplayReport) -> float:
    """Return the last drafter's mean acceptance."""
    drafter: api.DrafterResult = report.drafters[-1]
    return drafter.acceptance.mean
