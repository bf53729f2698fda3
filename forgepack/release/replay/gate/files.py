"""A gate from paths to its result: policy, report, baseline, timings and the drafter that is meant are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.profile import Profile
from forgepack.release.replay.drafter_identity import drafter_sha256
from forgepack.release.replay.gate.judge import GateInputs, GateResult, judge
from forgepack.release.replay.gate.policy import read_policy
from forgepack.release.replay.gate.template import policy_template
from forgepack.release.replay.gate.timings import read_timings
from forgepack.release.replay.reading import read_replay_report


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFiles:
    """The files of a gate; ``drafter`` is the folder of the drafter that the report must be about."""

    report: Path
    policy: Path
    drafter: Path | None = None
    baseline: Path | None = None
    timings: Path | None = None


def judge_files(files: GateFiles, profile: Profile) -> GateResult:
    """Check a replay's report by a release rule; what is wrong with the report is a failed check, not an error.

    Raises UsageError for a file that is not there, a policy that is not valid or that asks for an input which is not
    given, and the readers' errors of the drafter, every byte of which is read.
    """
    return judge(
        GateInputs(
            policy=read_policy(files.policy),
            report=read_replay_report(files.report),
            baseline=None if files.baseline is None else read_replay_report(files.baseline),
            timings=None if files.timings is None else read_timings(files.timings),
            drafter_sha256=_identity(files.drafter, profile),
        )
    )


def template_of(report: Path, drafter: Path | None, profile: Profile) -> Mapping[str, Any]:
    """Return a policy, as JSON values, that a report meets, bound to its workload, its target and one drafter.

    Raises CorruptError for a faulty report and UsageError for one that names no workload.
    """
    return policy_template(read_replay_report(report), _identity(drafter, profile))


def _identity(drafter: Path | None, profile: Profile) -> str | None:
    return None if drafter is None else drafter_sha256(drafter, profile)
