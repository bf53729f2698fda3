"""A baseline: the report of an earlier build, whose findings are known, so that a gate fails on new ones alone.

The earlier build had other bytes. So a finding is known by its rule, its place and what was compared, with digests
left out: another digest at the same place is the same finding, another value is a new one. A waived finding of the
baseline is not known, or an expired waiver would live on in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.canonical import parse_object, sha256_hex
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, LimitError, MissingError, UsageError
from forgepack.limits import REPLAY_BYTES
from forgepack.profile import Profile
from forgepack.verify.findings.report import FIRST_RULE_SET, Finding


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a report of version 1 in today's form: the first set of rules made it, it says of no option whence."""
    return {**raw, "rule_set": FIRST_RULE_SET, "options": None}


KIND = DocumentKind(
    name="forgepack.report",
    title="report of a verification",
    remake="forgepack verify --report json=FILE writes one",
    code="report",
    version=2,
    numbered=True,
    upgrade=_from_version_1,
    form="report",
)
MAX_BYTES = REPLAY_BYTES
_HINT = KIND.remake
# Roles whose presence says what kind of thing a report is about.
_KINDS = {"drafter": "a pair", "bundle": "a release", "hub": "a release"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """``known`` counts findings by (rule, key); ``inputs`` are the digests of each role."""

    path: Path
    sha256: str
    profile: str
    kind: str
    known: Mapping[tuple[str, str], int]
    places: Mapping[tuple[str, str], str]
    inputs: Mapping[str, Mapping[str, str]]


def read_baseline(path: Path) -> Baseline:
    """Read a report as a baseline; UsageError when it is not one: no gate passes by a baseline that can't be read."""
    try:
        data = read_bounded(path, MAX_BYTES)
        raw = KIND.judged(parse_object(data, where=str(path)), where=str(path))
    except MissingError as err:
        raise UsageError("no such baseline", where=str(path), hint=_HINT) from err
    except (CorruptError, LimitError) as err:
        what = f"the baseline can't be read: {err.what}"
        hint = err.hint or _HINT
        raise UsageError(what, where=err.where, expected=err.expected, found=err.found, hint=hint) from err
    entries = list(_entries(raw))
    return Baseline(
        path=path,
        sha256=sha256_hex(data),
        profile=raw["profile"]["name"],
        kind=_kind(raw["inputs"]),
        known=Counter((rule, key) for rule, key, _ in entries),
        places={(rule, key): where for rule, key, where in entries},
        inputs={role: one["digests"] for role, one in raw["inputs"].items()},
    )


def _entries(raw: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, key, place) of each finding; keys are made again of the texts: older reports serve, too."""
    for check in raw["checks"]:
        for one in check["findings"]:
            accepted = one.get("accepted")
            if accepted is None or accepted["kind"] == "known":
                texts = {key: one[key] for key in ("subject", "where", "expected", "found", "message")}
                yield check["id"], Finding(**texts).key(check["id"]), one["where"]
        for key in check.get("more", ()):
            yield check["id"], key, ""


def _kind(inputs: Mapping[str, Any]) -> str:
    return next((kind for role, kind in _KINDS.items() if role in inputs), "something else")


def demand_same_subject(baseline: Baseline, profile: Profile, named: Mapping[str, Any]) -> None:
    """Raise UsageError unless the baseline is of the same profile and of the same kind of thing."""
    for what, expected, found in (
        ("the baseline was made under another profile", profile.name, baseline.profile),
        ("the baseline is of another kind of subject", _kind(named), baseline.kind),
    ):
        if expected != found:
            hint = "name a report of an earlier build of what is verified"
            raise UsageError(what, where=str(baseline.path), expected=expected, found=found, hint=hint)
