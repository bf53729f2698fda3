"""By which policy a verification is checked: which rules run, which findings are accepted, and their account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from forgepack.verify.findings.report import Accepted, BaselineResult, Finding, Gone
from forgepack.verify.policy.baseline import Baseline
from forgepack.verify.policy.rule import Rule
from forgepack.verify.policy.selection import Selection
from forgepack.verify.policy.waivers import Waiver, WaiverFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the gate's owner decided; the default accepts nothing and leaves nothing out."""

    selection: Selection = field(default_factory=Selection)
    waivers: WaiverFile | None = None
    baseline: Baseline | None = None
    exit_zero: bool = False


class AcceptanceRecord:
    """Accepts findings under a policy, and remembers which waivers and known findings it met."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.evaluated: set[str] = set()
        self._used: set[str] = set()
        self._met: Counter[tuple[str, str]] = Counter()
        self._digests: dict[tuple[str, str], str] = {}

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """All waivers that were given."""
        return () if self.policy.waivers is None else self.policy.waivers.waivers

    def judge(self, rule: Rule, finding: Finding) -> Finding:
        """Return a finding marked as waived or known where the policy accepts it."""
        if not rule.waivable:
            return finding
        waived = self._waived(rule, finding)
        if waived is not None:
            return replace(finding, accepted=waived)
        return replace(finding, accepted=Accepted(kind="known")) if self._known(rule, finding) else finding

    def _waived(self, rule: Rule, finding: Finding) -> Accepted | None:
        if self.policy.waivers is None:
            return None
        digest = finding.digest(rule.id)
        self._digests[rule.id, finding.place] = digest
        key = (rule.id, finding.place, digest)
        waiver = next((one for one in self.waivers if one.key == key), None)
        if waiver is None or self.policy.waivers.expired(waiver):
            return None
        self._used.add(waiver.place)
        return Accepted(kind="waived", reason=waiver.reason, owner=waiver.owner, expires=waiver.expires.isoformat())

    def _known(self, rule: Rule, finding: Finding) -> bool:
        if self.policy.baseline is None:
            return False
        key = (rule.id, finding.key(rule.id))
        self._met[key] += 1
        return self._met[key] <= self.policy.baseline.known.get(key, 0)

    def expired(self) -> Iterator[Waiver]:
        """Yield the waivers whose last day has passed."""
        file = self.policy.waivers
        yield from (one for one in self.waivers if file is not None and file.expired(one))

    def unused(self) -> Iterator[tuple[Waiver, str | None]]:
        """Yield the waivers that hold and met no finding, with the digest of the one at their place, if there is one.

        A rule that was not evaluated does not make its waivers useless.
        """
        old = {one.place for one in self.expired()}
        for one in self.waivers:
            if one.place not in self._used | old and one.rule in self.evaluated:
                yield one, self._digests.get((one.rule, one.subject))

    def baseline_result(self, inputs: Mapping[str, Mapping[str, str]]) -> BaselineResult | None:
        """Return what the baseline changes: how many findings were known, which are gone, which inputs are others."""
        baseline = self.policy.baseline
        if baseline is None:
            return None
        gone = [
            Gone(rule=key[0], where=baseline.places[key])
            for key, count in sorted(baseline.known.items())
            if key[0] in self.evaluated
            for _ in range(count - min(count, self._met[key]))
        ]
        others = sorted(role for role in baseline.inputs if role in inputs and inputs[role] != baseline.inputs[role])
        return BaselineResult(
            path=baseline.path.as_posix(), sha256=baseline.sha256, gone=tuple(gone), other_inputs=tuple(others)
        )
