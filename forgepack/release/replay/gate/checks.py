"""The comparisons of a gate, one function a part of the rule; each yields what it compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from forgepack.drafter.statistics import difference
from forgepack.release.replay.gate.policy import (
    AcceptanceRule,
    AgreementRule,
    BaselineRule,
    By,
    Policy,
    TwoConstraintRule,
    WorkloadRule,
)
from forgepack.release.replay.gate.timings import TimingsFile
from forgepack.release.replay.reading import DrafterResult, Quantity, ReplayReport, ReportFile, calibration_text

Status = Literal["pass", "fail", "reported"]
# Differences of two drafters that are one come out as rounding noise, not as exactly 0.
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One comparison; ``reported`` ones carry no weight."""

    id: str
    status: Status
    what: str
    expected: str
    found: str
    where: str = ""


def _check(ident: str, good: bool, what: str, *, expected: Any, found: Any, where: str = "") -> GateCheck:
    status: Status = "pass" if good else "fail"
    return GateCheck(id=ident, status=status, what=what, expected=str(expected), found=str(found), where=where)


def check_file(file: ReportFile, what: str = "the report") -> Iterator[GateCheck]:
    """Yield every fault of a report's file."""
    for fault in file.faults:
        where = fault.where if fault.where == str(file.path) else f"{file.path}: {fault.where}"
        yield _check(fault.kind, False, what, expected=fault.expected, found=fault.found, where=where)


def check_workload(report: ReplayReport, policy: Policy) -> Iterator[GateCheck]:
    """Compare the workload's name, its traces, and the target that was used."""
    rule = policy.workload
    if report.workload is None:
        yield _check("PROFILE-UNBOUND", False, "the report's workload", expected=rule.name, found="no name")
    else:
        good = report.workload == rule.name
        yield _check("WORKLOAD", good, "the workload's name", expected=rule.name, found=report.workload)
    for ident, what, expected, found in (
        ("WORKLOAD", "the traces", rule.traces_sha256, report.traces_sha256),
        ("TARGET", "head, embedding and tokenizer", rule.target_sha256, report.target_sha256),
    ):
        yield _check(ident, expected == found, what, expected=expected, found=found)
    good = report.traces_identity != "differs"
    found = "recorded with this target" if report.traces_identity == "matches" else report.traces_identity
    yield _check("TARGET", good, "what the traces say of their target", expected="nothing else", found=found)


def check_drafter(report: ReplayReport, candidate: DrafterResult | None, expected: str) -> GateCheck:
    """Say whether the drafter that the gate is for was measured, and measured as it is deployed."""
    what = "the drafter that was measured"
    if candidate is None:
        found = ", ".join(one.sha256 for one in report.drafters)
        return _check("DRAFTER", False, what, expected=expected, found=found)
    if not candidate.deployed:
        return _check("DRAFTER", False, what, expected="at its own mask scale", found="another mask scale")
    return _check("DRAFTER", True, what, expected=expected, found=candidate.sha256)


def check_held_out(rule: WorkloadRule, report: ReplayReport, candidate: DrafterResult) -> GateCheck:
    """Compare the workload with the sequences that calibrated the drafter, where it claims to be held out.

    A policy that states ``held_out`` demands to know; a name alone is only contradicted by what is known. A workload
    that claims nothing is reported.
    """
    known = candidate.calibration
    state, overlap = known["state"], known.get("overlap", {"equal": 0, "copied": 0})
    met = not overlap["equal"] + overlap["copied"] and (state != "unknown" or not rule.held_out)
    check = _check(
        "HELD-OUT",
        met,
        "sequences that calibrated the drafter",
        expected="none" if rule.claims_held_out else "none, were the workload held out",
        found=calibration_text(known, report.sequences),
    )
    weightless = not rule.claims_held_out or (state == "unknown" and not rule.held_out)
    return replace(check, status="reported") if weightless and (not met or state == "unknown") else check


def check_recorded(rule: AcceptanceRule | None, candidate: DrafterResult) -> GateCheck:
    """Compare the drafter's acceptance with the recorded one; it weighs only if the policy demands it."""
    found, demanded = candidate.recorded, rule is not None and rule.as_recorded
    text = "not known: fewer than two sequences with recorded blocks, or a report of version 1"
    if found["state"] != "unknown":
        low, high = found["difference"]["interval"]
        apart = f"{found['difference']['mean']:+.4f} [{low:+.4f}, {high:+.4f}]"
        text = f"{found['state']}: {apart} from {found['mean']:.4f} recorded"
    check = _check(
        "RECORDED",
        found["state"] == "within",
        "acceptance beside the recorded one",
        expected="no significant difference (99%)",
        found=text,
    )
    return check if demanded or check.status == "pass" else replace(check, status="reported")


def check_sample(policy: Policy, report: ReplayReport, candidate: DrafterResult) -> Iterator[GateCheck]:
    """Compare how much was measured."""
    rule, blocks = policy.sample, candidate.acceptance.tally.blocks
    for what, least, found in (("sequences", rule.sequences, report.sequences), ("blocks", rule.blocks, blocks)):
        yield _check("SAMPLE", found >= least, f"{what} measured", expected=f"at least {least}", found=found)


def check_acceptance(policy: Policy, candidate: DrafterResult) -> Iterator[GateCheck]:
    """Compare the mean of accepted drafts and the shares P(m >= n)."""
    rule = policy.acceptance
    if rule is None:
        return
    yield _least("ACCEPTANCE", "accepted drafts per block", candidate.acceptance, least=rule.mean, by=rule.by)
    for place, least in enumerate(rule.at_least):
        what, expected = f"P(m >= {place + 1})", f"at least {least:g}"
        if place >= len(candidate.at_least):
            yield _check("ACCEPTANCE", False, what, expected=expected, found="no such draft in a block")
        else:
            found = candidate.at_least[place]
            yield _check("ACCEPTANCE", found >= least, what, expected=expected, found=f"{found:.4f}")


def check_agreement(
    rule: AgreementRule | None, report: ReplayReport, candidate: DrafterResult
) -> Iterator[GateCheck]:
    """Compare the reference, and the share of blocks drafted as it drafts them."""
    if rule is None:
        return
    found, what = report.reference.sha256, "the reference"
    yield _check("AGREEMENT", found == rule.reference_sha256, what, expected=rule.reference_sha256, found=found)
    if not report.reference.deployed:
        yield _check("AGREEMENT", False, what, expected="at its own mask scale", found="another mask scale")
    what = "share of blocks drafted as the reference's"
    if candidate.agreement is None:
        found = "none: replay with --against"
        yield _check("NULL-FIELD", False, what, expected=f"at least {rule.mean:g}", found=found)
    else:
        yield _least("AGREEMENT", what, candidate.agreement, least=rule.mean, by=rule.by)


def _least(ident: str, what: str, quantity: Quantity, *, least: float, by: By) -> GateCheck:
    if by == "lower" and quantity.interval is None:
        expected, found = f"an interval from {least:g} on", "no interval: too few sequences"
        return _check("NULL-FIELD", False, what, expected=expected, found=found)
    reached = quantity.mean if by == "mean" or quantity.interval is None else quantity.interval[0]
    words = "" if by == "mean" else "lower end of the interval "
    return _check(ident, reached >= least, what, expected=f"{words}at least {least:g}", found=_text(quantity))


def _text(quantity: Quantity) -> str:
    if quantity.interval is None:
        return f"{quantity.mean:.4f}"
    return f"{quantity.mean:.4f} [{quantity.interval[0]:.4f}, {quantity.interval[1]:.4f}]"


def check_baseline(
    rule: BaselineRule | None, file: ReportFile | None, *, report: ReplayReport, candidate: DrafterResult
) -> Iterator[GateCheck]:
    """Compare with an older report over the same traces: no significant drop, paired by sequence."""
    if rule is None or file is None:
        return
    if rule.report_sha256 not in (None, file.sha256):
        yield _check("BASELINE", False, "the baseline's file", expected=rule.report_sha256, found=file.sha256)
    yield from check_file(file, "the baseline's report")
    if file.report is None:
        return
    other = _baseline_drafter(file.report, rule.drafter_sha256)
    if other is None:
        found = f"{len(file.report.drafters)} drafters"
        expected = rule.drafter_sha256 or "one drafter: name it by baseline.drafter_sha256"
        yield _check("BASELINE", False, "the baseline's drafter", expected=expected, found=found)
        return
    unlike = [
        _check("BASELINE", False, what, expected=here, found=there)
        for what, here, there in _grounds(report, file.report)
        if here != there
    ]
    if unlike:
        yield from unlike
        return
    same = report.reference.sha256 == file.report.reference.sha256
    for name, most in sorted(rule.drops.items()):
        yield _drop(name, most, (candidate, other), same=same)


def _baseline_drafter(report: ReplayReport, wanted: str | None) -> DrafterResult | None:
    if wanted is not None:
        return next((one for one in reversed(report.drafters) if one.sha256 == wanted), None)
    compared = [one for one in report.drafters if one.agreement is not None] or list(report.drafters)
    return compared[0] if len(compared) == 1 else None


def _grounds(report: ReplayReport, other: ReplayReport) -> Iterator[tuple[str, Any, Any]]:
    """Yield what two reports must share to be compared: what, here, in the baseline."""
    yield "the baseline's workload", report.workload, other.workload
    yield "the baseline's traces", report.traces_sha256, other.traces_sha256
    yield "the baseline's target", report.target_sha256, other.target_sha256


def _drop(name: str, most: float | None, pair: tuple[DrafterResult, DrafterResult], *, same: bool) -> GateCheck:
    """Check one quantity against the baseline's: its interval must not be below 0 as a whole."""
    what = f"{name} against the baseline"
    left, right = (getattr(one, name) for one in pair)
    if left is None or right is None:
        return _check("NULL-FIELD", False, what, expected="a value in both reports", found="none in one of them")
    if name == "agreement" and not same:
        return _check("BASELINE", False, what, expected="the same reference in both reports", found="two references")
    found = difference(left.tally, right.tally)
    if found.interval is None:
        return _check("NULL-FIELD", False, what, expected="an interval", found="too few sequences")
    low, high = found.interval
    good = high >= -_NOISE and (most is None or found.mean >= -most - _NOISE)
    limit = "" if most is None else f", and at most {most:g} lower"
    text = f"{found.mean:+.4f} [{low:+.4f}, {high:+.4f}]"
    return _check("BASELINE", good, what, expected=f"no significant drop{limit}", found=text)


def check_two_constraint(
    rule: TwoConstraintRule, file: TimingsFile | None, drafter_sha256: str | None
) -> Iterator[GateCheck]:
    """Report speed ratio and live acceptance where timings are given; they weigh only if the policy requires them."""
    if file is None:
        return
    for check in _two_constraint(rule, file, drafter_sha256):
        if rule.required:
            yield check
        else:
            word = "met" if check.status == "pass" else "not met"
            yield replace(check, status="reported", found=f"{check.found} ({word})")


def _two_constraint(rule: TwoConstraintRule, file: TimingsFile, wanted: str | None) -> Iterator[GateCheck]:
    for where, expected, found in file.faults:
        kind = "NULL-FIELD" if found == "None" else "TWO-CONSTRAINT"
        kind = "PROFILE-UNBOUND" if "drafter_sha256" in expected + where else kind
        yield _check(kind, False, "the timings", expected=expected, found=found, where=f"{file.path}: {where}")
    timings = file.timings
    if timings is None:
        return
    good, what = timings.drafter_sha256 == wanted, "the drafter that was timed"
    yield _check("TWO-CONSTRAINT", good, what, expected=wanted, found=timings.drafter_sha256)
    yield _check(
        "TWO-CONSTRAINT",
        timings.speed_ratio >= rule.speed_ratio,
        f"time of a target call to that of a draft call, {timings.device}",
        expected=f"at least {rule.speed_ratio:g} (the rule: 5 to 10)",
        found=f"{timings.speed_ratio:.2f}",
    )
    live = rule.least_live(timings.verify_unit)
    yield _check(
        "TWO-CONSTRAINT",
        timings.live_acceptance >= live,
        f"live acceptance by position, verified on the {timings.verify_unit.upper()}",
        expected=f"at least {live:.0%}",
        found=f"{timings.live_acceptance:.1%}",
    )
