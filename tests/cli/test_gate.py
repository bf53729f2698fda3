"""The command gate: what passes, what fails, and that nothing missing ever passes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forgepack.cli.main import run
from forgepack.schema_check import schema_faults
from tests.cli.quantized import build_quantized

Change = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Bench:
    """A replayed pair: its folder, the report's path, and a policy that the report meets."""

    root: Path
    report: Path
    policy: dict[str, Any]

    @property
    def raw(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.report.read_text())
        return value


def replay(root: Path, out: Path, *more: str, target: Path | None = None) -> Path:
    command = ["replay", str(root / "gptq"), "--against", str(root / "checkpoint"), "--report", str(out), "-q"]
    named = ["--traces", str(root / "bound.npz"), "--target", str(target or root / "target")]
    assert run([*command, *named, "--profile", str(root / "profile.json"), *more]) == 0
    return out


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Replay a quantized drafter against its checkpoint, and take the template as the policy."""
    from forgepack.release.replay.gate.template import policy_template
    from forgepack.release.replay.reading import read_replay_report

    root = build_quantized(tmp_path_factory.mktemp("pair"))
    report = replay(root, root / "report.json", "--workload", "synthetic")
    file = read_replay_report(report)
    assert file.report is not None
    return Bench(root=root, report=report, policy=policy_template(file, file.report.drafters[1].sha256))


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def judged(
    tmp_path: Path,
    bench: Bench,
    *more: str,
    policy: Change | None = None,
    report: Change | None = None,
    capfd: pytest.CaptureFixture[str],
) -> tuple[int, list[str]]:
    """Run the gate with changed copies of policy and report; return the exit code and what failed."""
    rule, raw = json.loads(json.dumps(bench.policy)), bench.raw
    for change, value in ((policy, rule), (report, raw)):
        if change is not None:
            change(value)
    paths = [str(write(tmp_path / "report.json", raw)), "--policy", str(write(tmp_path / "policy.json", rule))]
    capfd.readouterr()
    code = run(["gate", *paths, "--json", *more])
    out = capfd.readouterr().out
    if not out:
        return code, []
    result = json.loads(out)
    assert () == schema_faults(result, "gate")
    assert ("fail" if code else "pass") == result["verdict"]
    return code, [check["id"] for check in result["checks"] if check["status"] == "fail"]


def test_the_template_is_met(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A policy made from a report is valid, bound to it, and met by it; as text the verdict comes last."""
    assert () == schema_faults(bench.policy, "gate_policy")
    assert (0, []) == judged(tmp_path, bench, capfd=capfd)
    assert run(["gate", str(bench.report), "--policy", str(write(tmp_path / "p.json", bench.policy))]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("PASS  release rule on synthetic: ")
    assert run(["gate", str(bench.report), "--template"]) == 0
    assert "synthetic" == json.loads(capfd.readouterr().out)["workload"]["name"]


def test_a_policy_may_be_toml(bench: Bench, tmp_path: Path) -> None:
    """The same rule written as TOML is the same rule."""
    rule = bench.policy
    lines = [f'schema = "{rule["schema"]}"', "[workload]"]
    lines += [f'{key} = "{value}"' for key, value in rule["workload"].items()]
    path = tmp_path / "policy.toml"
    path.write_text("\n".join([*lines, "[acceptance]", "mean = 0.01", ""]))
    assert run(["gate", str(bench.report), "--policy", str(path), "-q"]) == 0
    path.write_text("\n".join([*lines, "[acceptance]", "mean = 2.99", ""]))
    assert run(["gate", str(bench.report), "--policy", str(path), "-q"]) == 1


def put(*keys: Any, value: Any) -> Change:
    def change(raw: dict[str, Any]) -> None:
        node: Any = raw
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (put("acceptance", "mean", value=2.9), ["ACCEPTANCE"]),
        (put("acceptance", value={"mean": 0, "at_least": [0.0, 0.0, 0.99]}), ["ACCEPTANCE"]),
        (put("acceptance", value={"mean": 0, "at_least": [0.0] * 4}), ["ACCEPTANCE"]),
        (put("agreement", "mean", value=0.999), ["AGREEMENT"]),
        (put("agreement", "reference_sha256", value="0" * 64), ["AGREEMENT"]),
        (put("sample", value={"sequences": 4}), ["SAMPLE"]),
        (put("sample", value={"blocks": 10_000}), ["SAMPLE"]),
        (put("workload", "name", value="another"), ["WORKLOAD"]),
        (put("workload", "traces_sha256", value="0" * 64), ["WORKLOAD"]),
        (put("workload", "target_sha256", value="0" * 64), ["TARGET"]),
        (put("workload", "drafter_sha256", value="0" * 64), ["DRAFTER"]),
    ],
)
def test_what_is_not_met_fails(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Change, failed: list[str]
) -> None:
    """Each part of the rule alone refuses, by its own name."""
    assert (1, failed) == judged(tmp_path, bench, policy=change, capfd=capfd)


def test_the_lower_end_may_be_demanded(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A minimum between the interval's lower end and the mean is met by the mean alone."""
    accepted = bench.raw["drafters"][1]["acceptance"]
    between = (accepted["interval"][0] + accepted["mean"]) / 2
    by_mean, by_lower = (put("acceptance", value={"mean": between, "by": by}) for by in ("mean", "lower"))
    assert (0, []) == judged(tmp_path, bench, policy=by_mean, capfd=capfd)
    assert (1, ["ACCEPTANCE"]) == judged(tmp_path, bench, policy=by_lower, capfd=capfd)


def drop(*keys: Any) -> Change:
    def change(raw: dict[str, Any]) -> None:
        node: Any = raw
        for key in keys[:-1]:
            node = node[key]
        del node[keys[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (put("drafters", 1, "acceptance", "mean", value=None), "NULL-FIELD"),
        (put("traces", "sha256", value=None), "NULL-FIELD"),
        (put("tool", "version", value=None), "NULL-FIELD"),
        (drop("workload"), "PROFILE-UNBOUND"),
        (drop("traces"), "PROFILE-UNBOUND"),
        (drop("target", "head_sha256"), "PROFILE-UNBOUND"),
        (drop("drafters", 1, "files"), "PROFILE-UNBOUND"),
        (put("drafters", 1, "sha256", value="latest"), "PROFILE-UNBOUND"),
        (put("schema", value="forgepack.replay/9"), "REPORT-SCHEMA"),
        (put("drafters", value=[]), "REPORT-SCHEMA"),
        (put("drafters", 1, "acceptance", "mean", value=2.9), "REPORT-INCONSISTENT"),
        (put("drafters", 1, "acceptance", "at_least", 0, value=1.0), "REPORT-INCONSISTENT"),
        (put("drafters", 1, "agreement", "mean", value=1.0), "REPORT-INCONSISTENT"),
        (put("drafters", 1, "per_sequence", 0, "accepted", value=40), "REPORT-INCONSISTENT"),
        (put("drafters", 1, "files", "drafter_quant.safetensors", value="0" * 64), "REPORT-INCONSISTENT"),
        (put("target", "head_sha256", value="0" * 64), "REPORT-INCONSISTENT"),
        (put("drafters", 1, "role", value="reference"), "REPORT-INCONSISTENT"),
        (put("traces", "sequences", value=99), "REPORT-INCONSISTENT"),
        (put("traces", "identity", value="differs"), "TARGET"),
        (put("drafters", 1, "deployed_mask_scale", value=False), "DRAFTER"),
        (put("drafters", 0, "deployed_mask_scale", value=False), "AGREEMENT"),
    ],
)
def test_a_faulty_report_fails(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Change, failed: str
) -> None:
    """Nulls, lost digests, edited numbers and foreign settings are refused, each by its name."""
    code, found = judged(tmp_path, bench, report=change, capfd=capfd)
    assert (1, True) == (code, failed in found), found


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b'{"schema": "forgepack.replay/1", "schema": 1}', b"\x00\xff", b"{}"],
    ids=["empty", "cut", "null", "list", "twice", "binary", "blank"],
)
def test_what_is_no_report_fails(bench: Bench, tmp_path: Path, data: bytes) -> None:
    """A file that no report can be read from is refused like a bad one, also as a baseline."""
    broken = tmp_path / "broken.json"
    broken.write_bytes(data)
    policy = write(tmp_path / "policy.json", bench.policy)
    assert run(["gate", str(broken), "--policy", str(policy), "-q"]) == 1
    policy = write(tmp_path / "policy.json", bench.policy | {"baseline": {"acceptance": {}}})
    assert run(["gate", str(bench.report), "--policy", str(policy), "--baseline", str(broken), "-q"]) == 1


def test_another_projects_profile_with_nulls_is_refused(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A speculation profile that names a version and null rates is unbound, and its nulls are named."""
    path = write(tmp_path / "speculation_profile.json", {"version": 1, "acceptance_rate": None, "rates": [0.9, None]})
    policy = write(tmp_path / "policy.json", bench.policy)
    assert run(["gate", str(path), "--policy", str(policy)]) == 1
    out = capfd.readouterr().out
    assert "NULL-FIELD" in out
    assert "$.rates[1]" in out
    assert "PROFILE-UNBOUND" in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (drop("workload"), "named workload"),
        (put("workload", "name", value=" "), "named workload"),
        (drop("workload", "traces_sha256"), "traces_sha256"),
        (put("workload", "trace_sha256", value="0" * 64), "did you mean traces_sha256"),
        (put("acceptence", value={"mean": 1}), "did you mean acceptance"),
        (drop("workload", "drafter_sha256"), "--drafter"),
        (put("acceptance", "mean", value=None), "not valid"),
        (put("baseline", value={"acceptance": {}}), "--baseline"),
        (put("two_constraint", value={"required": True}), "--timings"),
    ],
)
def test_an_unfit_policy_is_a_usage_error(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Change, says: str
) -> None:
    """A policy without a named workload, with unknown keys, or that asks for what was not given ends with 2."""
    rule = json.loads(json.dumps(bench.policy))
    change(rule)
    assert run(["gate", str(bench.report), "--policy", str(write(tmp_path / "policy.json", rule))]) == 2
    out, err = capfd.readouterr()
    assert "" == out
    assert says in err


def test_a_policy_that_demands_nothing_is_refused(bench: Bench, tmp_path: Path) -> None:
    """Name and digests alone are no rule."""
    rule = {"schema": bench.policy["schema"], "workload": bench.policy["workload"]}
    assert run(["gate", str(bench.report), "--policy", str(write(tmp_path / "policy.json", rule)), "-q"]) == 2


def test_exit_codes(bench: Bench, tmp_path: Path) -> None:
    """2 for paths that do not exist and no policy, 4 for a report that may not be read, 5 for an output."""
    policy = str(write(tmp_path / "policy.json", bench.policy))
    assert run(["gate", str(tmp_path / "none.json"), "--policy", policy]) == 2
    assert run(["gate", str(bench.report), "--policy", str(tmp_path / "none.json")]) == 2
    assert run(["gate", str(bench.report)]) == 2
    assert run(["gate", str(bench.report), "--policy", policy, "--baseline", str(tmp_path / "none")]) == 2
    assert run(["gate", str(bench.report), "--policy", policy, "--timings", str(tmp_path / "none")]) == 2
    assert run(["gate", str(bench.report), "--policy", policy, "--output", policy]) == 2
    assert run(["gate", str(bench.report), "--policy", policy, "--output", policy, "--force", "-q"]) == 2
    if os.geteuid():
        locked = write(tmp_path / "locked.json", bench.raw)
        locked.chmod(0)
        assert run(["gate", str(locked), "--policy", policy]) == 4


def test_the_drafter_may_be_named(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--drafter takes the folder's own digest: the measured one passes, another one and a double claim fail."""
    profile = ("--profile", str(bench.root / "profile.json"))
    unpinned = drop("workload", "drafter_sha256")
    for folder, expected in (("gptq", (0, [])), ("rtn", (1, ["DRAFTER"])), ("checkpoint", (1, ["NULL-FIELD"]))):
        found = judged(tmp_path, bench, "--drafter", str(bench.root / folder), *profile, policy=unpinned, capfd=capfd)
        assert expected == found
    assert (1, ["DRAFTER"]) == judged(tmp_path, bench, "--drafter", str(bench.root / "rtn"), *profile, capfd=capfd)


def shifted(raw: dict[str, Any], by: int) -> None:
    """Move an accepted draft of every sequence, the report kept consistent: a block of m=1 becomes one of m=1+by."""
    one = raw["drafters"][1]
    rows, accepted = one["per_sequence"], one["acceptance"]
    histogram = accepted["histogram"]
    for row in rows:
        row["accepted"] += by
    histogram[1] -= len(rows)
    histogram[1 + by] += len(rows)
    blocks = accepted["blocks"]
    accepted["mean"] = sum(m * n for m, n in enumerate(histogram)) / blocks
    accepted["at_least"] = [sum(histogram[n:]) / blocks for n in range(1, len(histogram))]


def test_a_significant_drop_is_refused(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Against itself and a worse baseline a report passes; where every sequence fell it does not."""
    rule = put("baseline", value={"acceptance": {}, "agreement": {}})
    assert (0, []) == judged(tmp_path, bench, "--baseline", str(bench.report), policy=rule, capfd=capfd)
    better, worse = bench.raw, bench.raw
    shifted(better, 1)
    shifted(worse, -1)
    for raw, expected in ((better, (1, ["BASELINE"])), (worse, (0, []))):
        baseline = write(tmp_path / "baseline.json", raw)
        assert expected == judged(tmp_path, bench, "--baseline", str(baseline), policy=rule, capfd=capfd)


def test_a_limit_on_the_drop_holds_without_significance(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One sequence that fell is no significant drop; with a limit it is refused all the same."""
    raw = bench.raw
    one = raw["drafters"][1]
    one["per_sequence"][0]["accepted"] += 1
    histogram, accepted = one["acceptance"]["histogram"], one["acceptance"]
    histogram[1] -= 1
    histogram[2] += 1
    accepted["mean"] = sum(m * n for m, n in enumerate(histogram)) / accepted["blocks"]
    accepted["at_least"] = [sum(histogram[n:]) / accepted["blocks"] for n in range(1, len(histogram))]
    baseline = ("--baseline", str(write(tmp_path / "baseline.json", raw)))
    rule = put("baseline", value={"acceptance": {}})
    assert (0, []) == judged(tmp_path, bench, *baseline, policy=rule, capfd=capfd)
    rule = put("baseline", value={"acceptance": {"most": 0.001}})
    assert (1, ["BASELINE"]) == judged(tmp_path, bench, *baseline, policy=rule, capfd=capfd)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (put("workload", value="another"), {"acceptance": {}}),
        (put("traces", "sha256", value="1" * 64), {"acceptance": {}}),
        (None, {"acceptance": {}, "report_sha256": "0" * 64}),
        (None, {"acceptance": {}, "drafter_sha256": "0" * 64}),
    ],
)
def test_a_foreign_baseline_is_refused(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Change | None, rule: dict[str, Any]
) -> None:
    """A baseline on other ground, of another file or without the drafter proves nothing."""
    raw = bench.raw
    if change is not None:
        change(raw)
    baseline = ("--baseline", str(write(tmp_path / "baseline.json", raw)))
    found = judged(tmp_path, bench, *baseline, policy=put("baseline", value=rule), capfd=capfd)
    assert (1, {"BASELINE"}) == (found[0], set(found[1]))


def test_agreement_with_another_reference_is_not_compared(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Agreement is compared between reports of one reference alone."""
    other = tmp_path / "other.json"
    command = ["replay", str(bench.root / "gptq"), "--against", str(bench.root / "rtn"), "--report", str(other), "-q"]
    named = ["--traces", str(bench.root / "bound.npz"), "--target", str(bench.root / "target"), "--workload"]
    profile = ["--profile", str(bench.root / "profile.json"), "--checkpoint", str(bench.root / "checkpoint")]
    assert run([*command, *named, "synthetic", *profile]) == 0
    rule = put("baseline", value={"agreement": {}})
    assert (1, ["BASELINE"]) == judged(tmp_path, bench, "--baseline", str(other), policy=rule, capfd=capfd)


def timings(bench: Bench, **changes: Any) -> dict[str, Any]:
    value = {
        "schema": "forgepack.timings/1",
        "device": "a Mac",
        "verify_unit": "gpu",
        "draft_ms": 4.0,
        "target_ms": 30.0,
        "live_acceptance": 0.55,
        "drafter_sha256": bench.policy["workload"]["drafter_sha256"],
    }
    return value | changes


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"draft_ms": 6.5}, 1),
        ({"live_acceptance": 0.45}, 1),
        ({"verify_unit": "ane"}, 1),
        ({"verify_unit": "ane", "live_acceptance": 0.7}, 0),
        ({"drafter_sha256": "0" * 64}, 1),
        ({"live_acceptance": None}, 1),
        ({"device": ""}, 1),
    ],
)
def test_the_two_constraint_rule_weighs_only_if_asked(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, Any], count: int
) -> None:
    """It is reported with what is met and what is not; with required it refuses."""
    given = ("--timings", str(write(tmp_path / "timings.json", timings(bench, **changes))))
    assert (0, []) == judged(tmp_path, bench, *given, capfd=capfd)
    rule = put("two_constraint", value={"required": True})
    code, failed = judged(tmp_path, bench, *given, policy=rule, capfd=capfd)
    assert ((1 if count else 0), count) == (code, len(failed)), failed


def test_timings_without_a_digest_are_unbound(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What was timed must be named; timings that can't be parsed fail where they are required."""
    raw = timings(bench)
    del raw["drafter_sha256"]
    given = ("--timings", str(write(tmp_path / "timings.json", raw)))
    rule = put("two_constraint", value={"required": True})
    assert (1, ["PROFILE-UNBOUND"]) == judged(tmp_path, bench, *given, policy=rule, capfd=capfd)
    (tmp_path / "timings.json").write_text("{")
    assert (1, ["TWO-CONSTRAINT"]) == judged(tmp_path, bench, *given, policy=rule, capfd=capfd)
    assert (0, []) == judged(tmp_path, bench, *given, capfd=capfd)


def test_a_report_of_one_sequence_has_no_interval(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where an interval is asked for and none can be had the gate fails."""

    def one_sequence(raw: dict[str, Any]) -> None:
        raw["traces"]["sequences"] = 1
        for drafter in raw["drafters"]:
            rows = drafter["per_sequence"]
            merged = {key: sum(row[key] for row in rows) for key in rows[0]}
            drafter["per_sequence"] = [merged | {"sequence": 0}]

    rule = {"mean": 0, "by": "lower"}
    found = judged(
        tmp_path, bench, policy=lambda p: p.update(acceptance=rule, sample={}), report=one_sequence, capfd=capfd
    )
    assert (1, ["NULL-FIELD"]) == found
