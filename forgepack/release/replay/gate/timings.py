"""Timings of a live run, and the two-constraint rule over them.

The rule (CoreML-LLM's): a drafter must be 5 to 10 times faster than its target and reach about 50% live acceptance,
by position, where the GPU verifies, about 70% where the ANE does. A replay can't measure either: its acceptance is
mean m / 7 on recorded text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import read_bounded
from forgepack.canonical import parse_object, sha256_hex
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, MissingError, UsageError

KIND = DocumentKind(
    name="forgepack.timings",
    title="timings",
    remake="run `forgepack schema timings` for the format",
    code="timings",
    form="timings",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What was measured: milliseconds a call, live acceptance 0..1, and which drafter ran."""

    path: Path
    sha256: str
    device: str
    verify_unit: str
    draft_ms: float
    target_ms: float
    live_acceptance: float
    drafter_sha256: str

    @property
    def speed_ratio(self) -> float:
        """How many times a draft call is faster than a target call."""
        return self.target_ms / self.draft_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingsFile:
    """A file that should hold timings, and why it does not when it does not."""

    path: Path
    sha256: str
    timings: Timings | None
    faults: tuple[tuple[str, str, str], ...]


def read_timings(path: Path) -> TimingsFile:
    """Read timings; UsageError when there is no such file. Faults are (where, expected, found)."""
    try:
        data = read_bounded(path)
    except MissingError as err:
        hint = "run `forgepack schema timings` for the format"
        raise UsageError("no such timings", where=str(path), hint=hint) from err
    digest = sha256_hex(data)
    try:
        raw = KIND.current(parse_object(data, where=str(path)), where=str(path))
    except CorruptError as err:
        fault = (err.where or str(path), err.expected or "timings as JSON", f"{err.found or 'nothing'}: {err.what}")
        return TimingsFile(path=path, sha256=digest, timings=None, faults=(fault,))
    faults = tuple((fault.path, fault.expected, fault.found) for fault in KIND.faults(raw))
    timings = None
    if not faults:
        values = {key: value for key, value in raw.items() if key not in ("schema", "prompt")}
        timings = Timings(path=path, sha256=digest, **values)
    return TimingsFile(path=path, sha256=digest, timings=timings, faults=faults)
