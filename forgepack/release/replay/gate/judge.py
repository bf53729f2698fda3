"""The gate: whether a replay's report meets a release rule.

Nothing that is missing counts as good. A report that can't be parsed, holds a null, lacks a digest, contradicts
itself, or is about another workload, target or drafter fails like one whose numbers are too low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from forgepack import __version__
from forgepack.errors import EXIT_OK, EXIT_REFUSED, UsageError
from forgepack.release.replay.gate.checks import (
    GateCheck,
    check_acceptance,
    check_agreement,
    check_baseline,
    check_drafter,
    check_file,
    check_held_out,
    check_recorded,
    check_sample,
    check_two_constraint,
    check_workload,
)
from forgepack.release.replay.gate.policy import Policy
from forgepack.release.replay.gate.timings import TimingsFile
from forgepack.release.replay.reading import DrafterResult, ReplayReport, ReportFile

SCHEMA = "forgepack.gate/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInputs:
    """What is checked, by what, against what; ``drafter_sha256`` is that of the folder that the user names."""

    policy: Policy
    report: ReportFile
    baseline: ReportFile | None
    timings: TimingsFile | None
    drafter_sha256: str | None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The digests of the drafter that the gate is for: one, unless policy and command line differ."""
        both = (self.policy.workload.drafter_sha256, self.drafter_sha256)
        return tuple(sorted({digest for digest in both if digest is not None}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """All checks in order."""

    inputs: GateInputs
    checks: tuple[GateCheck, ...]

    @property
    def verdict(self) -> Literal["pass", "fail"]:
        """Pass when no check failed."""
        return "fail" if any(check.status == "fail" for check in self.checks) else "pass"

    @property
    def exit_code(self) -> int:
        """0 when the rule is met, 1 when not."""
        return EXIT_OK if self.verdict == "pass" else EXIT_REFUSED


def judge(inputs: GateInputs) -> GateResult:
    """Check a report by a policy; UsageError when the policy asks for an input that was not given."""
    policy = inputs.policy
    _demand_inputs(inputs)
    checks = list(check_file(inputs.report))
    report = inputs.report.report
    if report is not None:
        checks += check_workload(report, policy)
        candidate = _candidate(inputs, report)
        checks.append(check_drafter(report, candidate, " and ".join(inputs.wanted)))
        if candidate is not None:
            checks.append(check_held_out(policy.workload, report, candidate))
            checks.append(check_recorded(policy.acceptance, candidate))
            checks += check_sample(policy, report, candidate)
            checks += check_acceptance(policy, candidate)
            checks += check_agreement(policy.agreement, report, candidate)
            checks += check_baseline(policy.baseline, inputs.baseline, report=report, candidate=candidate)
    drafter = inputs.wanted[0] if len(inputs.wanted) == 1 else None
    checks += check_two_constraint(policy.two_constraint, inputs.timings, drafter)
    return GateResult(inputs=inputs, checks=tuple(checks))


def _candidate(inputs: GateInputs, report: ReplayReport) -> DrafterResult | None:
    """Return the drafter that the gate is for; of one that was compared with itself, the compared entry."""
    return next((one for one in reversed(report.drafters) if inputs.wanted == (one.sha256,)), None)


def _demand_inputs(inputs: GateInputs) -> None:
    policy = inputs.policy
    where = str(policy.path)
    if policy.baseline is not None and inputs.baseline is None:
        raise UsageError("the policy compares with a baseline", where=where, hint="name its report by --baseline")
    if policy.two_constraint.required and inputs.timings is None:
        raise UsageError("the policy requires the two-constraint rule", where=where, hint="name --timings")
    if policy.workload.drafter_sha256 is None and inputs.drafter_sha256 is None:
        hint = "name the drafter by --drafter, or set workload.drafter_sha256 in the policy"
        raise UsageError("the gate does not say which drafter it is for", where=where, hint=hint)


def gate_json(result: GateResult) -> dict[str, Any]:
    """Return the result as the JSON object that schemas/gate.schema.json describes."""
    inputs = result.inputs
    files = {"report": inputs.report, "baseline": inputs.baseline, "timings": inputs.timings}
    named = {} if inputs.policy.name is None else {"name": inputs.policy.name}
    return {
        "schema": SCHEMA,
        "tool": {"name": "forgepack", "version": __version__},
        "verdict": result.verdict,
        "policy": {"path": inputs.policy.path.as_posix(), "sha256": inputs.policy.sha256, **named},
        **{
            role: {"path": file.path.as_posix(), "sha256": file.sha256}
            for role, file in files.items()
            if file is not None
        },
        "checks": [
            {
                "id": check.id,
                "status": check.status,
                "what": check.what,
                **({"where": check.where} if check.where else {}),
                "expected": check.expected,
                "found": check.found,
            }
            for check in result.checks
        ],
    }
