"""How well a drafter drafts, and whether that meets a release rule: replay, policy_for, gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forgepack.calls.values import Listener, StrPath, TargetName, optional, parts_of, teller
from forgepack.profile import DEFAULT_PROFILE, load_profile

if TYPE_CHECKING:
    from forgepack.release.replay.gate.judge import GateResult
    from forgepack.release.replay.reading import ReplayReport


def replay(
    drafters: Sequence[StrPath],
    *,
    target: TargetName,
    traces: StrPath,
    against: StrPath | None = None,
    workload: str | None = None,
    checkpoint: StrPath | None = None,
    mask_scale: float | None = None,
    threads: int = 1,
    report: StrPath | None = None,
    force: bool = False,
    profile: str = DEFAULT_PROFILE,
    progress: Listener | None = None,
) -> ReplayReport:
    """Replay greedy speculative decoding on recorded sequences with each drafter, and return what was measured.

    A drafter is a checkpoint, a quantized drafter or a package. The reference is ``against``, else the first one.
    Acceptance is the mean of accepted drafts in a block, with a 95% interval; agreement is the share of blocks, 0 to
    1, whose drafts all equal the reference's. ``checkpoint`` is the one that a quantized drafter was made of;
    ``mask_scale`` (over 0, at most 1) is another one for every drafter but packages. ``workload`` names what the
    traces are, which a gate and an attestation need. ``report`` is a file to write the JSON report to; its content is
    the result's ``raw``, float64 numbers.

    Traces that were recorded with another target are replayed, and ``traces_identity`` says "differs". Raises
    UsageError for what is named wrongly and for an existing ``report`` without ``force``, the readers' errors of
    target, traces and drafters, NumericsError for values that can't be computed with.

    >>> report = api.replay(
    ...     ["checkpoint", "drafter"],
    ...     target="mini/target",
    ...     traces="mini/traces/heldout.npz",
    ...     workload="held-out",
    ...     report="replay.json",
    ...     profile="mini",
    ... )
    >>> unquantized, package = report.drafters
    >>> abs(package.acceptance.mean - unquantized.acceptance.mean) < 0.2
    True
    >>> package.agreement.mean > 0.8
    True
    """
    from forgepack.canonical import dump_canonical
    from forgepack.disk.outputs import clear_output, write_output
    from forgepack.disk.places import check_file
    from forgepack.release.replay.reading import as_replay_report
    from forgepack.release.replay.request import ReplayRequest, check_request, run_replay

    parts, out, loaded = parts_of(target), optional(report), load_profile(profile)
    request = ReplayRequest(
        drafters=tuple(map(Path, drafters)),
        target=parts,
        traces=Path(traces),
        against=optional(against),
        workload=workload,
        checkpoint=optional(checkpoint),
        mask_scale=mask_scale,
        threads=threads,
    )
    check_request(request)
    if out is not None:
        check_file(out, force=force, inputs=request.places())
        clear_output(out)
    found = run_replay(request, loaded, say=teller(progress, "replay"))
    if out is not None:
        write_output(out, dump_canonical(found))
    return as_replay_report(found)


def policy_for(
    report: StrPath, *, drafter: StrPath | None = None, profile: str = DEFAULT_PROFILE
) -> Mapping[str, Any]:
    """Return a release rule that a replay's report meets, as JSON values to be edited and written to a file.

    The rule is bound to the report's workload, traces and target, and to ``drafter`` where it is named; its minimums
    are the lower ends of the measured intervals.

    Raises CorruptError for a faulty report, UsageError for one that names no workload or is about other drafters.

    >>> policy = api.policy_for("replay.json", drafter="drafter", profile="mini")
    >>> policy["workload"]["name"], policy["workload"]["held_out"]
    ('held-out', True)
    >>> size = Path("policy.json").write_text(json.dumps(policy))
    """
    from forgepack.release.replay.gate.files import template_of

    return template_of(Path(report), optional(drafter), load_profile(profile))


def gate(
    report: StrPath,
    *,
    policy: StrPath,
    drafter: StrPath | None = None,
    baseline: StrPath | None = None,
    timings: StrPath | None = None,
    profile: str = DEFAULT_PROFILE,
) -> GateResult:
    """Check a replay's report by a release rule, a JSON or TOML file; ``verdict`` is "pass" or "fail".

    ``drafter`` is the folder that the report must be about, every byte of which is hashed. ``baseline`` is an older
    report on the same workload, ``timings`` are those of a live run. What is missing, null or not to be parsed is a
    failed check, never a pass.

    Raises UsageError for a file that does not exist, and for a policy that is not valid or asks for an input that is
    not given.

    >>> result = api.gate("replay.json", policy="policy.json", drafter="drafter", profile="mini")
    >>> result.verdict, [check.id for check in result.checks if check.status == "fail"]
    ('pass', [])
    """
    from forgepack.release.replay.gate.files import GateFiles, judge_files

    files = GateFiles(
        report=Path(report),
        policy=Path(policy),
        drafter=optional(drafter),
        baseline=optional(baseline),
        timings=optional(timings),
    )
    return judge_files(files, load_profile(profile))
