"""Which rules run: prefixes of ids that select and ignore, of which the longest that fits a rule wins.

Rules that are never waived run although they are ignored. Rules that are not selected are counted in every report:
a selection never looks like a whole pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forgepack.closest import did_you_mean
from forgepack.errors import UsageError
from forgepack.verify.policy.rule import AREAS, Rule, all_rules

ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Prefixes as they were named, in upper case; without any, every rule runs."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing was left out by name."""
        return not self.select and not self.ignore

    def holds(self, rule: Rule) -> bool:
        """Whether a rule runs."""
        chosen, ignored = self._fits(rule)
        return chosen >= 0 and (chosen > ignored or not rule.waivable)

    def kept(self) -> tuple[str, ...]:
        """Return the ids of the rules that --ignore names without effect: they are never left out."""
        fits = {one.id: self._fits(one) for one in all_rules() if not one.waivable}
        return tuple(ident for ident, (chosen, ignored) in fits.items() if 0 <= chosen <= ignored)

    def _fits(self, rule: Rule) -> tuple[int, int]:
        return _fit(rule.id, self.select) if self.select else 0, _fit(rule.id, self.ignore)


def parse_selection(select: Iterable[str], ignore: Iterable[str]) -> Selection:
    """Return a selection of comma-separated prefixes; UsageError names the closest for one that no rule has."""
    return Selection(select=_prefixes(select, "--select"), ignore=_prefixes(ignore, "--ignore"))


def _prefixes(texts: Iterable[str], option: str) -> tuple[str, ...]:
    parts = [part.strip().upper() for text in texts for part in text.split(",")]
    # The rules' files are imported for prefixes alone: without any, a verification imports them while it hashes.
    ids = [one.id for one in all_rules()] if parts else []
    for part in parts:
        if part == ALL or (part and any(ident.startswith(part) for ident in ids)):
            continue
        hint = did_you_mean(part, [*AREAS, *ids], otherwise="list the rules with forgepack rules")
        raise UsageError(f"{option} takes the start of a rule's id", found=part or "nothing", hint=hint)
    return tuple(sorted(set(parts)))


def _fit(ident: str, prefixes: Iterable[str]) -> int:
    """Return the length of the longest prefix of an id, 0 for ALL, -1 for none."""
    return max((0 if p == ALL else len(p) for p in prefixes if p == ALL or ident.startswith(p)), default=-1)
