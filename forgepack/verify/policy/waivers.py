"""Waivers: findings that their owner accepts for a time, each named by rule, exact place and digest.

Only findings of waivable rules can be waived. What a rule of the other kind finds makes the pair another pair or its
bytes other bytes, and no reason restores acceptance.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.settings_file import demand_form, read_settings
from forgepack.document import DocumentKind
from forgepack.errors import UsageError
from forgepack.verify.policy.rule import find_rule

KIND = DocumentKind(
    name="forgepack.waivers",
    title="waivers file",
    remake="run `forgepack schema waivers` for the format",
    code="waivers",
    form="waivers",
)


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
    """The waivers of a file, and the day on which they are checked."""

    path: Path
    sha256: str
    waivers: tuple[Waiver, ...]
    today: datetime.date

    def expired(self, waiver: Waiver) -> bool:
        """Whether a waiver's last day has passed."""
        return self.today > waiver.expires


def read_waivers(path: Path, today: datetime.date) -> WaiverFile:
    """Read a waivers file; UsageError, with the place, for everything that is wrong with it."""
    file = read_settings(path, KIND.title, hint=KIND.remake)
    entries = demand_form(file, KIND, stated=False)["waiver"]
    waivers = tuple(_waiver(raw, path, number) for number, raw in enumerate(entries))
    seen: dict[tuple[str, str, str], str] = {}
    for waiver in waivers:
        if seen.setdefault(waiver.key, waiver.place) != waiver.place:
            where = f"{path}: {waiver.place}"
            raise UsageError("a finding is waived twice", where=where, found=f"the same as {seen[waiver.key]}")
    return WaiverFile(path=path, sha256=file.sha256, waivers=waivers, today=today)


def _waiver(raw: Mapping[str, Any], path: Path, number: int) -> Waiver:
    place = f"waiver[{number}]"
    where = f"{path}: {place}"
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
        raise UsageError("a waiver's last day is not a date", where=f"{where}.expires", found=found) from err
    texts = {key: raw[key] for key in ("rule", "subject", "digest", "reason", "owner")}
    return Waiver(**texts, expires=expires, place=place)
