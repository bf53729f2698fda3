"""Run every rule over a pair and group the outcomes by root cause.

All failures at once: a rule that can't be evaluated names the rule whose finding explains it, and nothing an input
holds can stop the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from forgepack import __version__
from forgepack.errors import InputError, PlatformError
from forgepack.verify.faults import finding_of
from forgepack.verify.identities import identities
from forgepack.verify.inputs import Input, UnavailableError, stops
from forgepack.verify.report import Check, Failure, Finding, Report, failure_of
from forgepack.verify.rule import Rule, all_rules, owner_of
from forgepack.verify.subject import Pair

MAX_FINDINGS = 20
# Rules that look at gigabytes spend their time outside the interpreter's lock.
THREADS = 2


def verify(pair: Pair, *, strict: bool = False, progress: Callable[[str], None] | None = None) -> Report:
    """Evaluate all rules on ``pair`` at its depth and return the report; never raises for what an input holds.

    ``progress`` is told each rule, one call at a time, from several threads.
    """
    pair.read_ahead()
    extra: list[Failure] = []
    telling = threading.Lock()

    def judged(one: Rule) -> tuple[str, Check]:
        if progress is not None and one.depth <= pair.depth:
            with telling:
                progress(one.id)
        return one.id, evaluate(one, pair, extra)

    found: dict[str, Check] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        # Readers' faults are told last: by then every rule has read what it had to look at.
        for told in (False, True):
            found.update(pool.map(judged, (one for one in all_rules() if one.tells_readers_faults == told)))
    checks = [found[one.id] for one in all_rules()]
    failures = sorted({*pair.failures(), *extra}, key=lambda f: (f.exit_code, f.where, f.what))
    return Report(
        version=__version__,
        profile=pair.profile.name,
        profile_digest=pair.profile.digest,
        depth=pair.depth,
        strict=strict,
        inputs=identities(pair),
        checks=_grouped(checks),
        failures=tuple(failures),
    )


def evaluate(one: Rule, pair: Pair, extra: list[Failure]) -> Check:
    """Return the outcome of one rule; what kept it from finishing is added to ``extra``."""
    if one.depth > pair.depth:
        return _unknown(one, f"needs --depth {one.depth.label}", required=False)
    lost = next((source for name in one.needs if not (source := pair.input(name)).available), None)
    if lost is not None:
        return _blocked(one, lost, pair)
    kept: list[Finding] = []
    count = 0
    try:
        for finding in one.check(pair):
            count += 1
            kept += [finding] if count <= MAX_FINDINGS else []
    except UnavailableError as err:
        if not kept:
            return _blocked(one, err.source, pair)
    except (InputError, PlatformError) as err:
        if stops(err):
            extra.append(failure_of(err, pair.show(err.where or "")))
            return _unknown(one, err.what, required=True)
        kept.append(finding_of(err, pair))
        count += 1
    return _outcome(one, pair, kept, count)


def _outcome(one: Rule, pair: Pair, kept: list[Finding], count: int) -> Check:
    if count == 0 and (unseen := _unseen(one, pair)) is not None:
        return _blocked(one, unseen, pair)
    check = _unknown(one, "", required=True)
    return replace(check, status="fail" if count else "pass", findings=tuple(kept), count=count)


def _unseen(one: Rule, pair: Pair) -> Input[Any] | None:
    """Return an input that keeps a rule without findings from passing: one that is lost, or all that are absent."""
    sources = [pair.input(name) for name in one.over]
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
    cause = None if stops(first) else owner_of(first.code)
    reason = f"{where}: {first.what}" if where else first.what
    return _unknown(one, reason, required=True, cause=cause)


def _unknown(one: Rule, reason: str, *, required: bool, cause: str | None = None) -> Check:
    return Check(
        id=one.id,
        title=one.title,
        severity=one.severity,
        depth=one.depth,
        status="not-evaluated",
        required=required and one.severity == "error",
        why=one.why,
        remedy=one.remedy,
        reason=reason,
        cause=cause,
    )


def _grouped(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Name the cause of each failed check whose rule says which other failure explains it."""
    checks = tuple(checks)
    failed = sorted(check.id for check in checks if check.status == "fail" and check.severity == "error")
    after = {one.id: one.after for one in all_rules()}
    return tuple(
        replace(check, cause=_cause_of(check.id, after[check.id], failed)) if check.status == "fail" else check
        for check in checks
    )


def _cause_of(ident: str, prefixes: Iterable[str], failed: list[str]) -> str | None:
    """Return the first failed rule that an ``after`` names, by id or by the start of one; never the rule itself."""
    found = (other for prefix in prefixes for other in failed if other.startswith(prefix) and other != ident)
    return next(found, None)
