"""Waivers: findings that their owner accepts for a time, each named by rule, exact place and digest.

Only findings of waivable rules can be waived. What a rule of the other kind finds makes the pair another pair or its
bytes other bytes, and no reason brings acceptance back.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.settings_file import SettingsFile, demand_schema, read_settings
from forgepack.errors import UsageError
from forgepack.verify.rule import find_rule

SCHEMA_NAME = "waivers"
_WHAT = "waivers file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One accepted finding; ``expires`` is the last day on which it holds, ``place`` where it is written."""

    rule: str
    subject: str
    digest: str
    reason: str
    owner: str
    expires: datetime.date
    place: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What a finding must be to be waived: rule, place and digest."""
        return self.rule, self.subject, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverFile:
    """The waivers of a file, and the day on which they are judged."""

    path: Path
    sha256: str
    waivers: tuple[Waiver, ...]
    today: datetime.date

    def expired(self, waiver: Waiver) -> bool:
        """Whether a waiver's last day has passed."""
        return self.today > waiver.expires


def read_waivers(path: Path, today: datetime.date) -> WaiverFile:
    """Read a waivers file; UsageError, with the place, for everything that is wrong with it."""
    file = read_settings(path, _WHAT, hint="forgepack schema waivers tells its form")
    demand_schema(file, _WHAT, SCHEMA_NAME)
    waivers = tuple(_waiver(file, number) for number in range(len(file.raw["waiver"])))
    seen: dict[tuple[str, str, str], str] = {}
    for waiver in waivers:
        if seen.setdefault(waiver.key, waiver.place) != waiver.place:
            where = f"{path}: {waiver.place}"
            raise UsageError("a finding is waived twice", where=where, found=f"the same as {seen[waiver.key]}")
    return WaiverFile(path=path, sha256=file.sha256, waivers=waivers, today=today)


def _waiver(file: SettingsFile, number: int) -> Waiver:
    raw, place = file.raw["waiver"][number], f"waiver[{number}]"
    where = f"{file.path}: {place}"
    try:
        waivable = find_rule(raw["rule"]).waivable
    except UsageError as err:
        raise UsageError("a waiver names no rule", where=f"{where}.rule", found=err.found, hint=err.hint) from err
    if not waivable:
        raise UsageError(
            "findings of this rule are never waived",
            where=f"{where}.rule",
            found=raw["rule"],
            hint=f"forgepack explain {raw['rule']} says how to mend them",
        )
    try:
        expires = datetime.date.fromisoformat(raw["expires"])
    except ValueError as err:
        found = raw["expires"]
        raise UsageError("a waiver's last day is no date", where=f"{where}.expires", found=found) from err
    texts = {key: raw[key] for key in ("rule", "subject", "digest", "reason", "owner")}
    return Waiver(**texts, expires=expires, place=place)
