"""Evidence of an attestation: a replay's report, and what it showed of each of its drafters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.attestation import Evidence
from forgepack.errors import CorruptError
from forgepack.release.replay.reading import ReplayReport, read_replay_report

_MEASURED = ("mean", "standard_error", "interval", "blocks")


def read_evidence(path: Path, name: str) -> Evidence:
    """Read a replay's report; what is wrong with it is kept as faults. ``name`` stands for it in places.

    Raises UsageError when there is no such file, UnreadableError when it can't be read.
    """
    try:
        file = read_replay_report(path)
    except CorruptError as err:
        found = f"{err.what}: {err.found}" if err.found else err.what
        fault = ("$", err.expected or "a replay's report", found)
        return Evidence(name=name, sha256="", shows={}, faults=(fault,))
    faults = [(fault.where.removeprefix(str(path)) or "$", fault.expected, fault.found) for fault in file.faults]
    if file.report is not None and file.report.workload is None:
        faults.append(("$.workload", "the name of a workload: forgepack replay --workload", "nothing"))
    shows = {} if file.report is None or faults else _shown(file.report)
    return Evidence(name=name, sha256=file.sha256, shows=shows, faults=tuple(faults))


def _shown(report: ReplayReport) -> dict[str, Mapping[str, Any]]:
    """Return by the drafter's digest what the report says of it; one compared with itself counts as compared."""
    raw, reference = report.raw, report.reference.sha256
    common = {
        "schema": report.schema,
        "workload": raw["workload"],
        "profile_sha256": raw["profile"]["sha256"],
        "traces": raw["traces"],
        "target": {"export": raw["target"]["export"], "sha256": raw["target"]["sha256"]},
    }
    return {one["sha256"]: {**common, "drafter": _drafter(one, reference)} for one in raw["drafters"]}


def _drafter(one: Mapping[str, Any], reference: str) -> dict[str, Any]:
    out: dict[str, Any] = {"sha256": one["sha256"], "acceptance": _measured(one["acceptance"])}
    if "agreement" in one:
        out["agreement"] = {**_measured(one["agreement"]), "reference_sha256": reference}
    return out


def _measured(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: raw[key] for key in _MEASURED if key in raw}
