"""A replay's report read back, for gates: every fault is reported, and nothing that is missing counts as good.

A report is trusted no further than its numbers fit each other: means are computed again from the sequences, digests
from the digests that they cover. It is not signed; a gate that must not trust its author replays by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forgepack.artifacts.files import read_bounded
from forgepack.canonical import digest_json, parse_object, sha256_hex
from forgepack.drafter.statistics import Interval, Tally, estimate
from forgepack.errors import CorruptError, MissingError, UsageError
from forgepack.limits import REPLAY_BYTES
from forgepack.release.replay.report import KIND
from forgepack.schema_check import SchemaFault

MAX_BYTES = REPLAY_BYTES
MAX_FAULTS = 20
_NOISE = 1e-9
FaultKind = Literal["REPORT-UNPARSABLE", "REPORT-SCHEMA", "REPORT-INCONSISTENT", "NULL-FIELD", "PROFILE-UNBOUND"]
# What ties numbers to files; a report without one of them could be about anything.
_BINDING = {"target", "traces", "files", "sha256", "head_sha256", "embedding_sha256", "tokenizer_sha256", "workload"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFault:
    """One thing that is wrong with a report."""

    kind: FaultKind
    where: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantity:
    """A mean over blocks with its interval, and by sequence."""

    mean: float
    interval: Interval | None
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrafterResult:
    """One drafter of a report; ``agreement`` is None for the reference.

    ``calibration`` and ``recorded`` are what the report says of them, ``state`` first.
    """

    path: str
    sha256: str
    deployed: bool
    acceptance: Quantity
    at_least: tuple[float, ...]
    agreement: Quantity | None
    calibration: Mapping[str, Any]
    recorded: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """A report whose numbers fit each other; ``workload`` is None when it names none, ``raw`` is all of it.

    ``schema`` is the version that the file states; ``raw`` is in today's form.
    """

    schema: str
    workload: str | None
    traces_sha256: str
    traces_identity: str
    target_sha256: str
    sequences: int
    drafters: tuple[DrafterResult, ...]
    raw: Mapping[str, Any]

    @property
    def reference(self) -> DrafterResult:
        """The drafter that the others were compared with."""
        return self.drafters[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportFile:
    """A file that should hold a report: its digest, the report if it is one, and what is wrong with it."""

    path: Path
    sha256: str
    report: ReplayReport | None
    faults: tuple[ReportFault, ...]


def read_replay_report(path: Path) -> ReportFile:
    """Read a report; UsageError when there is no such file, UnreadableError when it can't be read."""
    try:
        data = read_bounded(path, MAX_BYTES)
    except MissingError as err:
        hint = "forgepack replay --report writes one; a gate without its report never passes"
        raise UsageError("no such report", where=str(path), hint=hint) from err
    digest = sha256_hex(data)
    try:
        raw = parse_object(data, where=str(path))
    except CorruptError as err:
        found = f"{err.what}: {err.found}" if data else "an empty file"
        fault = ReportFault(kind="REPORT-UNPARSABLE", where=str(path), expected="a replay's report", found=found)
        return ReportFile(path=path, sha256=digest, report=None, faults=(fault,))
    try:
        written, raw = raw.get("schema"), KIND.current(raw, where=str(path)) if "schema" in raw else raw
    except CorruptError as err:
        return ReportFile(path=path, sha256=digest, report=None, faults=(_version_fault(err),))
    faults = [*_nulls(raw), *map(_fault_of, KIND.faults(raw))]
    if not faults:
        faults = list(_contradictions(raw))
    return ReportFile(
        path=path,
        sha256=digest,
        report=None if faults else _report(raw, str(written)),
        faults=tuple(faults[:MAX_FAULTS]),
    )


def as_replay_report(raw: Mapping[str, Any]) -> ReplayReport:
    """Return a report that this very version has just made, in the form that is read back from a file."""
    return _report(raw, str(raw["schema"]))


def _version_fault(error: CorruptError) -> ReportFault:
    expected, found = error.expected or "", f"{error.found}: {error.what}; {error.hint}"
    return ReportFault(kind="REPORT-SCHEMA", where="$.schema", expected=expected, found=found)


def _nulls(value: Any, path: str = "$") -> Iterator[ReportFault]:
    """Yield every null: a number that nobody measured."""
    if value is None:
        yield ReportFault(kind="NULL-FIELD", where=path, expected="a value", found="null")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _nulls(item, f"{path}[{number}]")


def _fault_of(fault: SchemaFault) -> ReportFault:
    name = fault.path.rpartition(".")[2]
    kind: FaultKind = "PROFILE-UNBOUND" if name in _BINDING else "REPORT-SCHEMA"
    return ReportFault(kind=kind, where=fault.path, expected=fault.expected, found=fault.found)


def _contradictions(raw: Mapping[str, Any]) -> Iterator[ReportFault]:
    """Yield the places where a report's numbers do not follow from each other."""
    target = {k: v for k, v in raw["target"].items() if k not in ("export", "sha256")}
    pairs: list[tuple[str, Any, Any]] = [("$.target.sha256", digest_json(target), raw["target"]["sha256"])]
    for number, one in enumerate(raw["drafters"]):
        pairs += [(f"$.drafters[{number}].{path}", *sides) for path, *sides in _expectations(one)]
        role = "reference" if number == 0 else "compared"
        pairs.append((f"$.drafters[{number}].role", role, one["role"]))
        pairs.append((f"$.drafters[{number}].per_sequence", raw["traces"]["sequences"], len(one["per_sequence"])))
    for where, expected, found in pairs:
        if not _alike(expected, found):
            yield ReportFault(kind="REPORT-INCONSISTENT", where=where, expected=str(expected), found=str(found))


def _expectations(one: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, what follows from the rest, what is stated) of one drafter."""
    accepted, rows = one["acceptance"], one["per_sequence"]
    histogram = accepted["histogram"]
    blocks, drafts = sum(histogram), sum(m * n for m, n in enumerate(histogram))
    yield "sha256", digest_json(one["files"]), one["sha256"]
    yield "acceptance.blocks", blocks, accepted["blocks"]
    yield "acceptance.mean", drafts / max(1, blocks), accepted["mean"]
    yield "acceptance.at_least", len(histogram) - 1, len(accepted["at_least"])
    for place, share in enumerate(accepted["at_least"]):
        yield f"acceptance.at_least[{place}]", sum(histogram[place + 1 :]) / max(1, blocks), share
    yield "per_sequence", (blocks, drafts), (sum(r["blocks"] for r in rows), sum(r["accepted"] for r in rows))
    recorded = one["recorded"]
    if recorded["state"] != "unknown":
        low, high = recorded["difference"]["interval"]
        yield "recorded.state", "within" if low - _NOISE <= 0 <= high + _NOISE else "outside", recorded["state"]
    compared = one["role"] == "compared"
    yield "agreement", compared, "agreement" in one
    if compared and "agreement" in one:
        agreement, total = one["agreement"], sum(r.get("reference_blocks", 0) for r in rows)
        equal = sum(r.get("equal_blocks", 0) for r in rows)
        yield "agreement.blocks", total, agreement["blocks"]
        yield "agreement.mean", equal / total if total else 1.0, agreement["mean"]


def _alike(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float | int):
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    return bool(expected == found)


def _report(raw: Mapping[str, Any], written: str) -> ReplayReport:
    return ReplayReport(
        schema=written,
        workload=raw.get("workload"),
        traces_sha256=raw["traces"]["sha256"],
        traces_identity=raw["traces"]["identity"],
        target_sha256=raw["target"]["sha256"],
        sequences=raw["traces"]["sequences"],
        drafters=tuple(_drafter(one) for one in raw["drafters"]),
        raw=raw,
    )


def _drafter(one: Mapping[str, Any]) -> DrafterResult:
    rows = one["per_sequence"]
    agreement = None
    if "agreement" in one:
        agreement = _quantity(one["agreement"], rows, "equal_blocks", "reference_blocks")
    return DrafterResult(
        path=one["path"],
        sha256=one["sha256"],
        deployed=one["deployed_mask_scale"],
        acceptance=_quantity(one["acceptance"], rows, "accepted", "blocks"),
        at_least=tuple(one["acceptance"]["at_least"]),
        agreement=agreement,
        calibration=one["calibration"],
        recorded=one["recorded"],
    )


def _quantity(raw: Mapping[str, Any], rows: list[dict[str, int]], sums: str, counts: str) -> Quantity:
    """Return a quantity; its interval is computed again, so that no edited one counts."""
    columns = [np.array([row.get(key, 0) for row in rows], np.float64) for key in (sums, counts)]
    found = Tally(sums=columns[0], counts=columns[1])
    return Quantity(mean=raw["mean"], interval=estimate(found).interval, tally=found)


def calibration_text(calibration: Mapping[str, Any], sequences: int) -> str:
    """Return what is known of the replayed sequences' part in a drafter's calibration."""
    if calibration["state"] == "none":
        return "not calibrated"
    if calibration["state"] == "unknown":
        return "what calibrated it is not known"
    overlap = calibration["overlap"]
    text = f"{overlap['share']:.1%} of the {overlap['ngram']}-grams are its calibration's"
    if not overlap["equal"] + overlap["copied"]:
        return f"none of {sequences} sequences calibrated it; {text}"
    return f"{overlap['equal']} of {sequences} sequences calibrated it, {overlap['copied']} more are copies; {text}"
