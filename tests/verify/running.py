"""Running the verifier in process on a folder that holds checkpoint, quant, target and drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from forgepack.profile import Profile
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Check, Depth, Report
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.factory import tiny_profile
from tests.verify.sabotage import Case


def verified(
    root: Path,
    depth: str = "header",
    *,
    profile: Profile | None = None,
    sources: bool = False,
    strict: bool = False,
    named: Mapping[str, Any] | None = None,
) -> Report:
    """Verify ``root``/drafter against ``root``/target; with ``sources`` also against checkpoint and quant.

    ``named`` replaces or adds parts by name.
    """
    parts: dict[str, Any] = {"drafter": root / "drafter", "target": root / "target"}
    parts |= {"checkpoint": root / "checkpoint", "quant": root / "quant"} if sources else {}
    parts |= named or {}
    found = find_sources(parts.pop("drafter"), parts.pop("target"), **parts)
    pair = OpenPair(found, profile or tiny_profile(), Depth[depth.upper()], seconds=60)
    return verify(pair, strict=strict)


def failed(report: Report) -> set[str]:
    """Return the ids of all failed checks of severity error."""
    return {check.id for check in report.failed("error")}


def roots(report: Report) -> list[str]:
    """Return the ids of the failed checks that no other failure explains, errors only, sorted."""
    return sorted(check.id for check in report.failed("error") if check.cause is None)


def check_of(report: Report, ident: str) -> Check:
    """Return one check of a report."""
    return next(check for check in report.checks if check.id == ident)


def told(report: Report, ident: str) -> str:
    """Return everything that the findings of one check say, as one text."""
    findings = check_of(report, ident).findings
    return "\n".join(f"{f.subject} | {f.where} | {f.message} | {f.expected} | {f.found}" for f in findings)


def explain_all(report: Report) -> str:
    """Return all failed and lost checks, for an assertion's message."""
    shown = [c for c in report.checks if c.status == "fail" or (report.refuses(c) and c.cause is None)]
    lines = [f"{c.id} {c.status} cause={c.cause} {c.reason} {told(report, c.id)[:300]}" for c in shown]
    return "\n".join(lines)


def refuse(pair: Path, case: Case) -> None:
    """Apply a case to a copy of the good pair and demand exactly its causes and its words."""
    case.change(pair)
    report = verified(pair, case.depth, sources=case.sources)
    assert ("fail", 1) == (report.verdict, report.exit_code), explain_all(report)
    assert sorted(case.roots) == roots(report), explain_all(report)
    text = "\n".join(told(report, ident) for ident in case.roots)
    for words in case.says:
        assert words in text, text


def by_name(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Return the parametrization of a list of cases by their names."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])
