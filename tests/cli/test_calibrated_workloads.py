"""A replay says which of its sequences calibrated the drafter, and how its acceptance is beside the recorded one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.cli.main import run
from forgepack.schema_check import schema_faults
from tests.cli.quantized import build_quantized
from tests.recorder import random_rows
from tests.synthetic import Recorded, make_weights, record, write_traces
from tests.synthetic_files import LENGTHS

Json = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A quantized pair, with files of sequences that calibrated it and of others."""

    root: Path

    def replay(self, traces: str, workload: str = "held-out") -> Json:
        """Replay the quantized drafter; return the report, which is also written beside the traces."""
        out = self.root / f"{Path(traces).stem}-{workload}.json"
        named = ["--traces", str(self.root / traces), "--target", str(self.root / "target"), "--workload", workload]
        drafters = [str(self.root / "gptq"), "--against", str(self.root / "checkpoint")]
        more = ["--report", str(out), "--force", "-q", "--profile", str(self.root / "profile.json")]
        assert run(["replay", *drafters, *named, *more]) == 0
        found: Json = json.loads(out.read_bytes())
        assert () == schema_faults(found, "replay")
        return found

    def gate(self, report: Json, policy: Json) -> Json:
        """Judge a report; return the checks by id, what failed first."""
        paths = [self.root / "judged.json", self.root / "policy.json", self.root / "gate.json"]
        for path, value in zip(paths, (report, policy), strict=False):
            path.write_text(json.dumps(value))
        code = run(["gate", str(paths[0]), "--policy", str(paths[1]), "--output", str(paths[2]), "--force", "-q"])
        found: Json = json.loads(paths[2].read_bytes())
        assert () == schema_faults(found, "gate")
        assert ("fail" if code else "pass") == found["verdict"]
        return {check["id"]: check for check in found["checks"]} | {"verdict": found["verdict"]}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Quantize the pair on two of its three sequences: the third one is held out."""
    root, weights = build_quantized(tmp_path_factory.mktemp("pair")), make_weights()
    own = [record(weights, length=n, plen=p, seed=s) for s, (n, p) in enumerate(LENGTHS)]
    others = [record(weights, length=n, plen=7, seed=s) for s, n in enumerate((60, 64, 58, 62), 40)]
    edited = [replace(one, tokens=changed(one)) for one in own[:2]]
    write_traces(root / "own.npz", own[:2])
    write_traces(root / "edited.npz", [*others, *edited])
    write_traces(root / "mixed.npz", [*others, own[1]])
    write_traces(root / "others.npz", others)
    write_traces(
        root / "noise.npz",
        [replace(one, features=random_rows(len(one.features), 7 + n)) for n, one in enumerate(others)],
    )
    write_traces(root / "cut.npz", [cut(one) for one in others])
    return Bench(root)


def changed(one: Recorded) -> Any:
    tokens = one.tokens.copy()
    tokens[-3] = (tokens[-3] + 1) % 44
    return tokens


def cut(one: Recorded) -> Recorded:
    """Leave out the last token but two features' worth: rows lie beyond the tokens, as after an end token."""
    return replace(one, tokens=one.tokens[: len(one.features) - 2])


def policy_of(report: Json, **workload: Any) -> Json:
    """Return a policy that demands next to nothing of the numbers."""
    return {
        "schema": "forgepack.gate_policy/2",
        "workload": {
            "name": report["workload"],
            "traces_sha256": report["traces"]["sha256"],
            "target_sha256": report["target"]["sha256"],
            "drafter_sha256": report["drafters"][1]["sha256"],
            **workload,
        },
        "acceptance": {"mean": 0.0},
    }


CALIBRATED = {"own.npz": (2, 0), "edited.npz": (0, 2), "mixed.npz": (1, 0)}


@pytest.mark.parametrize("traces", CALIBRATED)
def test_a_workload_that_calibrated_is_no_held_out_one(bench: Bench, traces: str) -> None:
    """Equal sequences and copies are counted by the replay; a workload that claims to be held out fails the gate."""
    report = bench.replay(traces)
    overlap = report["drafters"][1]["calibration"]["overlap"]
    assert CALIBRATED[traces] == (overlap["equal"], overlap["copied"])
    assert {"state": "none"} == report["drafters"][0]["calibration"]
    found = bench.gate(report, policy_of(report))
    assert ("fail", "fail") == (found["HELD-OUT"]["status"], found["verdict"])
    assert "none" == found["HELD-OUT"]["expected"]


NAMES = ["held-out", "Held out", "HELDOUT", "our_held_out prompts", "release (held-out, 16)"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_claims_it_in_any_spelling(bench: Bench, name: str) -> None:
    """However the word is written, it is a claim."""
    report = bench.replay("own.npz") | {"workload": name}
    assert "fail" == bench.gate(report, policy_of(report))["verdict"]


def test_a_policy_may_claim_it_for_any_name(bench: Bench) -> None:
    """With held_out the demand stands in the policy; without a claim the overlap is told and carries no weight."""
    report = bench.replay("own.npz", "smoke")
    found = bench.gate(report, policy_of(report))
    assert ("reported", "pass") == (found["HELD-OUT"]["status"], found["verdict"])
    assert found["HELD-OUT"]["found"].startswith("2 of 2 sequences calibrated it")
    assert "fail" == bench.gate(report, policy_of(report, held_out=True))["verdict"]
    assert "pass" == bench.gate(report, policy_of(report, held_out=False))["verdict"]


def test_a_held_out_workload_passes(bench: Bench) -> None:
    """Sequences that did not calibrate pass, whoever claims it, and the template claims it from then on."""
    report = bench.replay("others.npz")
    found = bench.gate(report, policy_of(report, held_out=True))
    assert ("pass", "pass") == (found["HELD-OUT"]["status"], found["verdict"])
    for traces, claimed in (("others.npz", True), ("own.npz", None)):
        policy = template(bench, bench.replay(traces, "any"))
        assert claimed == policy["workload"].get("held_out")


def template(bench: Bench, report: Json) -> Json:
    from forgepack.release.replay.gate.template import policy_template
    from forgepack.release.replay.reading import read_replay_report

    (bench.root / "template.json").write_text(json.dumps(report))
    return policy_template(read_replay_report(bench.root / "template.json"), None)


def test_what_is_not_known_is_no_pass_where_it_is_demanded(bench: Bench) -> None:
    """A drafter of version 1 does not say what calibrated it: told, and refused where the policy demands it."""
    report = bench.replay("others.npz")
    report["drafters"][1]["calibration"] = {"state": "unknown"}
    found = bench.gate(report, policy_of(report))
    assert ("reported", "pass") == (found["HELD-OUT"]["status"], found["verdict"])
    assert "fail" == bench.gate(report, policy_of(report, held_out=True))["verdict"]


def test_version_1_of_report_and_policy_are_read(bench: Bench) -> None:
    """What a report of version 1 could not say is unknown; its policy still judges it."""
    report = bench.replay("others.npz", "any")
    policy = policy_of(report) | {"schema": "forgepack.gate_policy/1"}
    del report["left_out"]
    for one in report["drafters"]:
        del one["calibration"], one["recorded"]
    found = bench.gate(report | {"schema": "forgepack.replay/1"}, policy)
    assert ("reported", "reported", "pass") == (
        found["HELD-OUT"]["status"],
        found["RECORDED"]["status"],
        found["verdict"],
    )


def test_features_of_another_target_are_outside_the_recorded_acceptance(bench: Bench) -> None:
    """Noise in place of features accepts far less than was recorded: told, and refused where demanded."""
    good, bad = (bench.replay(f"{name}.npz", "any") for name in ("others", "noise"))
    assert ["within", "outside"] == [report["drafters"][0]["recorded"]["state"] for report in (good, bad)]
    assert bad["drafters"][0]["recorded"]["difference"]["interval"][1] < 0
    assert good["drafters"][0]["acceptance"]["mean"] == pytest.approx(good["drafters"][0]["recorded"]["mean"])
    policy = policy_of(bad)
    found = bench.gate(bad, policy)
    assert ("reported", "pass") == (found["RECORDED"]["status"], found["verdict"])
    policy["acceptance"]["as_recorded"] = True
    assert "fail" == bench.gate(bad, policy)["verdict"]


def test_the_text_says_both(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """One line each: the sequences that calibrated, and an acceptance that was not recorded so."""
    from forgepack.render.replay_text import replay_lines

    lines = replay_lines(bench.replay("mixed.npz"))
    assert any("1 of 5 sequences calibrated it, 0 more are copies" in line for line in lines)
    lines = replay_lines(bench.replay("noise.npz"))
    assert any(line.startswith("   OUTSIDE the recorded acceptance: ") for line in lines)
    assert any("none of 4 sequences calibrated it" in line for line in lines)
    lines = replay_lines(bench.replay("cut.npz"))
    assert any("8 feature rows beyond the tokens" in line for line in lines)


FORGED: dict[str, Callable[[Json], object]] = {
    "within, though 0 is not": lambda one: one["recorded"].update(state="within"),
    "known without numbers": lambda one: one.update(calibration={"state": "known"}),
    "none with numbers": lambda one: one["calibration"].update(state="none"),
    "another word": lambda one: one.update(calibration={"state": "fine"}),
    "nothing": lambda one: one.pop("calibration"),
    "null": lambda one: one.update(recorded=None),
}


@pytest.mark.parametrize("kind", FORGED)
def test_reports_that_contradict_themselves_are_refused(bench: Bench, kind: str) -> None:
    """What a report says of calibration and recording has a form, and follows from its numbers."""
    report = bench.replay("noise.npz", "any")
    FORGED[kind](report["drafters"][1])
    assert "fail" == bench.gate(report, policy_of(bench.replay("noise.npz", "any")))["verdict"]


def test_degenerate_features_are_not_replayed(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """A dead tap is refused by its layer before any walk: exit 4."""
    (one,) = [record(make_weights(), length=40, plen=7, seed=3)]
    one.features[:, 2] = 0
    path = write_traces(bench.root / "dead.npz", [one])
    args = ["replay", str(bench.root / "checkpoint"), "--traces", str(path), "--target", str(bench.root / "target")]
    capfd.readouterr()
    assert run([*args, "--profile", str(bench.root / "profile.json")]) == 4
    err = capfd.readouterr().err
    assert "tap of layer 3" in err
    assert "zero in row 0" in err


def test_values_are_refused_by_sequence(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """NaN, ids beyond the vocabulary and lengths that do not fit name the sequence that they are in."""
    weights = make_weights()
    changes: tuple[tuple[Callable[[Recorded], object], str], ...] = (
        (lambda one: one.features.__setitem__((9, 1, 4), np.nan), "feats_1[9, 1, 4]"),
        (lambda one: one.features.__setitem__((9, 1, 4), np.inf), "feats_1[9, 1, 4]"),
        (lambda one: one.tokens.__setitem__(12, 48), "sequence 1.tokens[12]"),
        (lambda one: one.accepted.__setitem__(1, 4), "sequence 1.m[1]"),
    )
    for change, words in changes:
        both = [record(weights, length=40, plen=7, seed=s) for s in (3, 4)]
        change(both[1])
        path = write_traces(bench.root / "bad.npz", both)
        args = [
            "replay",
            str(bench.root / "checkpoint"),
            "--traces",
            str(path),
            "--target",
            str(bench.root / "target"),
        ]
        capfd.readouterr()
        assert run([*args, "--profile", str(bench.root / "profile.json")]) == 4
        assert words in capfd.readouterr().err
