"""Verifying the tiny pair under an owner's policy: findings that may be waived, and what accepts them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forgepack.canonical import dump_canonical
from forgepack.render.json_report import report_json
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.acceptance import Policy
from forgepack.verify.policy.baseline import read_baseline
from forgepack.verify.policy.rule import all_rules
from forgepack.verify.policy.waivers import read_waivers
from tests.verify.factory import tiny_profile
from tests.verify.running import check_of
from tests.verify.sabotage import both, write

TODAY = datetime.date(2030, 6, 15)
IDS = [one.id for one in all_rules()]


def renamed(root: Path, name: str = "x") -> None:
    """Give the export's folder another name: an error that may be waived (CTR005)."""
    (folder,) = (root / "target/export").iterdir()
    folder.rename(root / "target/export" / name)


junk = write("drafter/.DS_Store", b"x")
BOTH = both(renamed, junk)


def run_on(root: Path, *, policy: Policy | None = None, depth: str = "header", strict: bool = False) -> Report:
    sources = find_sources(root / "drafter", root / "target")
    return verify(OpenPair(sources, tiny_profile(), Depth[depth.upper()], seconds=60), strict=strict, policy=policy)


def waiver_of(report: Report, ident: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the waiver that a report's finding needs, with keys replaced."""
    check = check_of(report, ident)
    finding = report_json(report)["checks"][IDS.index(ident)]["findings"][number]
    assert check.findings[number].digest(ident) == finding["digest"]
    texts = {"reason": "known to legal", "owner": "release@example.org", "expires": "2030-06-15"}
    return {"rule": ident, "subject": finding["where"], "digest": finding["digest"], **texts, **changes}


def waiving(path: Path, *waivers: dict[str, Any], today: datetime.date = TODAY) -> Policy:
    file = path / "waivers.json"
    file.write_text(json.dumps({"waiver": list(waivers)}))
    return Policy(waivers=read_waivers(file, today))


def baseline_of(report: Report, path: Path, change: Callable[[dict[str, Any]], object] | None = None) -> Policy:
    raw = report_json(report)
    if change is not None:
        change(raw)
    (path / "baseline.json").write_bytes(dump_canonical(raw))
    return Policy(baseline=read_baseline(path / "baseline.json"))
