"""Run every rule over a pair and group the outcomes by root cause.

All failures at once: a rule that can't be evaluated names the rule whose finding explains it, and nothing an input
holds can stop the run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any

from forgepack import __version__
from forgepack.errors import InputError, PlatformError
from forgepack.verify.checks.faults import finding_of
from forgepack.verify.findings.report import Check, Depth, Failure, Finding, Narrowed, Report, Status, failure_of
from forgepack.verify.identities import identities
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.reading import Input, UnavailableError, aborts_verification
from forgepack.verify.policy.acceptance import AcceptanceRecord, Policy
from forgepack.verify.policy.baseline import demand_same_subject
from forgepack.verify.policy.rule import Rule, all_rules, owner_of

MAX_FINDINGS = 20
MAX_MORE = 5000
LEFT_OUT = "not selected"
# Rules that look at gigabytes spend their time outside the interpreter's lock, others wait for inputs.
THREADS = 4


def verify(
    pair: Pair, *, strict: bool = False, progress: Callable[[str], None] | None = None, policy: Policy | None = None
) -> Report:
    """Evaluate the rules on ``pair`` at its depth and return the report; never raises for what an input holds.

    ``progress`` gets each rule, one call at a time, from several threads. Raises UsageError where the policy'
    baseline is of another subject.
    """
    pair.acceptance = AcceptanceRecord(policy)
    selection = pair.acceptance.policy.selection
    if pair.acceptance.policy.baseline is not None:
        demand_same_subject(pair.acceptance.policy.baseline, pair.profile, pair.sources.named)
    ahead = selection.whole or any(one.depth > Depth.HASH for one in all_rules() if selection.holds(one))
    extra: list[Failure] = []
    telling = threading.Lock()

    def judged(one: Rule) -> tuple[str, Check]:
        if progress is not None and one.depth <= pair.depth and selection.holds(one):
            with telling:
                progress(one.id)
        return one.id, evaluate(one, pair, extra)

    found: dict[str, Check] = {}
    with pair.read_ahead() if ahead else nullcontext(), ThreadPoolExecutor(THREADS) as pool:
        for _, rules in groupby(sorted(all_rules(), key=lambda one: _turn(one, pair)), key=lambda one: one.phase):
            found.update(pool.map(judged, rules))
    return _report(pair, [found[one.id] for one in all_rules()], extra, strict=strict)


def _turn(one: Rule, pair: Pair) -> tuple[int, bool, int]:
    """Return when a rule is evaluated, as a key to sort by.

    Reader errors are reported last: by then every rule has read what it looks at. Before that, rules wait for
    nothing as long as others can be evaluated that need no input which takes long to read; of those that do, the
    ones that check bytes alone come last: all bytes take longest.
    """
    waits = any(pair.input(name).depth > Depth.HEADER for name in (*one.needs, *one.each_of))
    return one.phase, waits, -one.depth if waits else one.depth


def _report(pair: Pair, checks: list[Check], extra: list[Failure], *, strict: bool) -> Report:
    policy, inputs = pair.acceptance.policy, identities(pair)
    selection = policy.selection
    failures = {*pair.failures(unread=selection.whole), *extra}
    narrowed = Narrowed(select=selection.select, ignore=selection.ignore, kept=selection.kept())
    return Report(
        version=__version__,
        profile=pair.profile.name,
        profile_digest=pair.profile.digest,
        depth=pair.depth,
        strict=strict,
        inputs=inputs,
        checks=_demanded(_grouped(checks)) if selection.select else _grouped(checks),
        failures=tuple(sorted(failures, key=lambda f: (f.exit_code, f.where, f.what))),
        exit_zero=policy.exit_zero,
        narrowed=None if selection.whole else narrowed,
        baseline=pair.acceptance.baseline_result({one.role: one.digests for one in inputs}),
    )


def evaluate(one: Rule, pair: Pair, extra: list[Failure]) -> Check:
    """Return the outcome of one rule; what kept it from finishing is added to ``extra``."""
    if not pair.acceptance.policy.selection.holds(one):
        return replace(_unknown(one, LEFT_OUT, required=False), selected=False)
    if one.depth > pair.depth:
        return _unknown(one, f"needs --depth {one.depth.label}", required=False)
    lost = next((source for name in one.needs if not (source := pair.input(name)).available), None)
    if lost is not None:
        return _blocked(one, lost, pair)
    found = _Findings(one, pair.acceptance)
    try:
        for finding in one.check(pair):
            found.add(finding)
    except UnavailableError as err:
        if not found.count:
            return _blocked(one, err.source, pair)
    except (InputError, PlatformError) as err:
        if aborts_verification(err):
            extra.append(failure_of(err, pair.show(err.where or "")))
            return _unknown(one, err.what, required=True)
        found.add(finding_of(err, pair))
    if found.count == 0 and (unseen := _unseen(one, pair)) is not None:
        return _blocked(one, unseen, pair)
    pair.acceptance.evaluated.add(one.id)
    return found.outcome()


class _Findings:
    """The findings of one rule: those that count first, of each kind the first twenty, and the number of all."""

    def __init__(self, one: Rule, acceptance: AcceptanceRecord) -> None:
        self.rule, self.acceptance = one, acceptance
        self.count = 0
        self._accepted: Counter[str] = Counter()
        self._counting: list[Finding] = []
        self._others: list[Finding] = []
        self._more: list[str] = []

    def add(self, finding: Finding) -> None:
        judged = self.acceptance.judge(self.rule, finding)
        self.count += 1
        kept = self._counting if judged.accepted is None else self._others
        if judged.accepted is not None:
            self._accepted[judged.accepted.kind] += 1
        if len(kept) < MAX_FINDINGS:
            kept.append(judged)
        elif len(self._more) < MAX_MORE and (judged.accepted is None or judged.accepted.kind == "known"):
            self._more.append(judged.key(self.rule.id))

    def outcome(self) -> Check:
        waived, known = self._accepted["waived"], self._accepted["known"]
        status: Status = "fail" if self.count > waived + known else "waived" if waived else "known"
        return replace(
            _unknown(self.rule, "", required=True),
            status=status if self.count else "pass",
            findings=(*self._counting, *self._others),
            count=self.count,
            waived=waived,
            known=known,
            more=tuple(self._more),
        )


def _unseen(one: Rule, pair: Pair) -> Input[Any] | None:
    """Return an input that keeps a rule without findings from passing: one that is lost, or all that are absent."""
    sources = [pair.input(name) for name in one.each_of]
    lost = next((source for source in sources if not source.available and source.absent is None), None)
    if lost is not None:
        return lost
    return sources[0] if sources and not any(source.available for source in sources) else None


def _blocked(one: Rule, source: Input[Any], pair: Pair) -> Check:
    """Return the outcome of a rule whose input has no value: legally absent, or lost to another finding."""
    if source.absent is not None:
        return _unknown(one, source.absent, required=False)
    first = source.roots[0]
    where = pair.show(first.where or "")
    cause = None if aborts_verification(first) else owner_of(first.code)
    reason = f"{where}: {first.what}" if where else first.what
    return _unknown(one, reason, required=True, cause=cause)


def _unknown(one: Rule, reason: str, *, required: bool, cause: str | None = None) -> Check:
    return Check(
        id=one.id,
        title=one.title,
        fails=one.fails,
        severity=one.severity,
        depth=one.depth,
        status="not-evaluated",
        required=required and one.severity == "error",
        why=one.why,
        remedy=one.remedy,
        reason=reason,
        cause=cause,
        waivable=one.waivable,
    )


def _grouped(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Name the cause of each failed check whose rule says which other failure explains it.

    A waivable check that could not be evaluated because of an accepted finding is excused by it.
    """
    checks = tuple(checks)
    failed = sorted(check.id for check in checks if check.status == "fail" and check.severity == "error")
    unread = _unread(checks)
    accepted = {check.id for check in checks if check.status in ("waived", "known")}
    after = {one.id: one.after for one in all_rules()}

    def grouped(check: Check) -> Check:
        if check.status == "fail":
            return replace(check, cause=_cause_of(check.id, after[check.id], failed) or _of_one_file(check, unread))
        excused = check.status == "not-evaluated" and check.waivable and check.cause in accepted
        return replace(check, required=False) if excused else check

    return tuple(grouped(check) for check in checks)


def _demanded(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Require every rule that --select chose: a selection is answered in full or refused."""
    return tuple(
        replace(check, required=True) if check.selected and check.status == "not-evaluated" else check
        for check in checks
    )


def _unread(checks: Iterable[Check]) -> dict[str, str]:
    """Return which JSON documents could not be read as what they are, each with the rule that reports it.

    A missing one (area PKG) and one that is a link (PATH) are left out: they have causes of their own.
    """
    readers = {one.id for one in all_rules() if one.tells_readers_faults and one.area not in ("PATH", "PKG")}
    failed = [check for check in checks if check.id in readers and check.status == "fail"]
    told = {_file_of(finding): check.id for check in failed for finding in check.held(None)}
    return {file: ident for file, ident in told.items() if file.endswith(".json")}


def _of_one_file(check: Check, unread: Mapping[str, str]) -> str | None:
    """Return the rule that reports why a document can't be read, where all that a check found is of such ones."""
    causes = {unread.get(_file_of(finding)) for finding in check.held(None)}
    if check.id in unread.values() or len(check.held(None)) < check.counting or None in causes:
        return None
    return min((cause for cause in causes if cause is not None), default=None)


def _file_of(finding: Finding) -> str:
    return finding.where.partition(": ")[0].removeprefix("bundle/")


def _cause_of(ident: str, prefixes: Iterable[str], failed: list[str]) -> str | None:
    """Return the first failed rule that an ``after`` names, by id or by the start of one; never the rule itself."""
    found = (other for prefix in prefixes for other in failed if other.startswith(prefix) and other != ident)
    return next(found, None)
