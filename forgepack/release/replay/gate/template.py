"""A policy made from a report: bound to its workload and target, minimums at the intervals' lower ends."""

from __future__ import annotations

import math
from typing import Any

from forgepack.errors import CorruptError, UsageError
from forgepack.release.replay.gate.policy import KIND
from forgepack.release.replay.reading import DrafterResult, Quantity, ReportFile


def policy_template(file: ReportFile, drafter_sha256: str | None) -> dict[str, Any]:
    """Return a policy that the report meets, to be edited; the drafter is its last one unless one is named."""
    report = file.report
    if report is None:
        fault = file.faults[0]
        raise CorruptError(
            "no policy can be made from a faulty report",
            where=f"{file.path}: {fault.where}",
            expected=fault.expected,
            found=fault.found,
            hint="replay again",
        )
    if report.workload is None:
        raise UsageError(
            "the report names no workload", where=str(file.path), hint="replay again with --workload NAME"
        )
    found = [one for one in report.drafters if drafter_sha256 in (None, one.sha256)]
    if not found:
        raise UsageError("the report is not about that drafter", where=str(file.path), found=drafter_sha256)
    policy: dict[str, Any] = {
        "schema": KIND.schema,
        "name": f"release rule on {report.workload}",
        "workload": {
            "name": report.workload,
            "traces_sha256": report.traces_sha256,
            "target_sha256": report.target_sha256,
        },
        "sample": {"sequences": report.sequences, "blocks": _blocks(found[-1])},
        "acceptance": {"mean": _floor(found[-1].acceptance)},
    }
    if drafter_sha256 is not None:
        policy["workload"]["drafter_sha256"] = drafter_sha256
    if _held_out(found[-1]):
        policy["workload"]["held_out"] = True
    if found[-1].agreement is not None:
        policy["agreement"] = {
            "mean": _floor(found[-1].agreement),
            "reference_sha256": report.reference.sha256,
        }
    return policy


def _held_out(drafter: DrafterResult) -> bool:
    """Say whether the report knows that no sequence calibrated the drafter: then the policy demands it."""
    overlap = drafter.calibration.get("overlap", {"equal": 0, "copied": 0})
    return drafter.calibration["state"] == "known" and not overlap["equal"] + overlap["copied"]


def _floor(quantity: Quantity) -> float:
    low = quantity.mean if quantity.interval is None else min(quantity.mean, quantity.interval[0])
    return max(0.0, math.floor(low * 1000) / 1000)


def _blocks(drafter: DrafterResult) -> int:
    """Return four fifths of the blocks: a better drafter needs fewer for the same text."""
    return max(1, drafter.acceptance.tally.blocks * 4 // 5)
