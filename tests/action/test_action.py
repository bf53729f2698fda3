"""The composite action: passes a good pair, refuses a bad one, and never passes without a report of its own run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.action.runner import ROOT, read_action, run_action, steps_of

PAIR = {"drafter": "good/my drafter", "target": "good/target", "depth": "hash"}


def test_no_value_is_part_of_a_command() -> None:
    """Every step's shell is a file of the action; expressions stand in ``env`` and ``if`` alone."""
    action = read_action()
    for step in steps_of(action):
        assert "${{" not in step["run"]
        assert "bash" == step["shell"]
    told = {name for step in steps_of(action) for text in step["env"].values() for name in _inputs(text)}
    used = {name for step in steps_of(action) for name in _inputs(step.get("if", ""))}
    assert set(action["inputs"]) == told | used
    assert all(spec["description"] for spec in (*action["inputs"].values(), *action["outputs"].values()))


def _inputs(text: str) -> set[str]:
    return {part.split()[0] for part in text.split("inputs.")[1:]}


def test_scripts_are_valid_shell() -> None:
    """Bash parses each script."""
    scripts = sorted((ROOT / "action").glob("*.sh"))
    assert 2 == len(scripts)
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)


def test_a_good_pair_passes_and_leaves_its_reports(pairs: Path, tmp_path: Path) -> None:
    """The outputs tell verdict, code and both reports; the SARIF lies where it was wanted."""
    ran = run_action(pairs, tmp_path, sarif="to upload.sarif", **PAIR)
    assert (0, "pass", "0") == (ran.code, ran.outputs["verdict"], ran.outputs["exit-code"]), ran
    assert "to upload.sarif" == ran.outputs["sarif"]
    assert "2.1.0" == json.loads((pairs / "to upload.sarif").read_bytes())["version"]
    assert "pass" == json.loads(Path(ran.outputs["report"]).read_bytes())["verdict"]


def test_a_bad_pair_fails_with_its_code_and_leaves_its_reports(pairs: Path, tmp_path: Path) -> None:
    """A stale head is refused with 1; annotations are printed and the SARIF can be uploaded."""
    ran = run_action(pairs, tmp_path, drafter="bad/my drafter", target="bad/target")
    assert (1, "fail", "1") == (ran.code, ran.outputs["verdict"], ran.outputs["exit-code"]), ran
    assert "::error" in ran.out
    assert "HEAD003" in ran.out
    results = json.loads(Path(ran.outputs["sarif"]).read_bytes())["runs"][0]["results"]
    assert "HEAD003" in {result["ruleId"] for result in results}


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({}, 2),
        ({"drafter": "nowhere", "target": "good/target"}, 2),
        ({"drafter": "good", "target": "good/target"}, 3),
        ({"bundle": "good"}, 3),
        ({**PAIR, "bundle": "good"}, 2),
        ({**PAIR, "depth": "deepest"}, 2),
        ({**PAIR, "strict": "maybe"}, 2),
        ({**PAIR, "profile": "none.json"}, 2),
        ({**PAIR, "sarif": "no/such/folder/x.sarif"}, 5),
    ],
)
def test_what_can_not_be_verified_fails_with_its_code(
    pairs: Path, tmp_path: Path, inputs: dict[str, str], code: int
) -> None:
    """Wrong inputs end in the documented code, and no verdict is told."""
    ran = run_action(pairs, tmp_path, **inputs)
    assert code == ran.code, ran
    assert "pass" != ran.outputs.get("verdict") or "sarif" in inputs


GOOD_REPORT = '{"tool": "forgepack", "verdict": "pass", "exit_code": 0, "inputs": {}}'
GOOD_SARIF = '{"runs": [{"tool": {"driver": {"name": "forgepack"}}, "properties": {"verdict": "pass"}}]}'
WRITE = """#!/bin/bash
for word; do case "$word" in
    --report=json=*) printf '%s' '{json}' > "${{word#--report=json=}}" ;;
    --report=sarif=*) printf '%s' '{sarif}' > "${{word#--report=sarif=}}" ;;
esac; done
"""
FAIL_REPORT = GOOD_REPORT.replace("pass", "fail").replace('"exit_code": 0', '"exit_code": 1')


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("#!/bin/sh\nexit 0\n", 70),
        ("#!/bin/sh\necho Traceback >&2\nexit 70\n", 70),
        ("#!/bin/sh\nkill -9 $$\n", 137),
        (WRITE.format(json="", sarif=""), 70),
        (WRITE.format(json="{", sarif=GOOD_SARIF), 70),
        (WRITE.format(json="[]", sarif=GOOD_SARIF), 70),
        (WRITE.format(json="null", sarif="null"), 70),
        (WRITE.format(json=GOOD_REPORT, sarif=""), 70),
        (WRITE.format(json=GOOD_REPORT, sarif='{"runs": []}'), 70),
        (WRITE.format(json=GOOD_REPORT, sarif=GOOD_SARIF), 70),
        (WRITE.format(json=FAIL_REPORT, sarif=GOOD_SARIF), 70),
        (WRITE.format(json=FAIL_REPORT, sarif=GOOD_SARIF.replace("pass", "fail")), 70),
    ],
)
def test_no_report_is_no_pass(pairs: Path, tmp_path: Path, tool: str, code: int) -> None:
    """A tool that crashes, is killed, or ends well with no report, an empty one or another's, fails the gate."""
    ran = run_action(pairs, tmp_path, tool=tool, **PAIR)
    assert code == ran.code, ran
    assert "pass" != ran.outputs.get("verdict")


def test_the_report_of_another_run_is_refused(pairs: Path, tmp_path: Path) -> None:
    """A true report of another pair, or of this pair before it changed, is not this run's."""
    first = run_action(pairs, tmp_path / "first", **PAIR)
    kept = Path(first.outputs["report"]).parent
    replayed = f"""#!/bin/bash
for word; do case "$word" in
    --report=json=*) cp '{kept}/report.json' "${{word#--report=json=}}" ;;
    --report=sarif=*) cp '{kept}/report.sarif' "${{word#--report=sarif=}}" ;;
esac; done
"""
    same = run_action(pairs, tmp_path / "same", tool=replayed, **PAIR)
    assert (0, "pass") == (same.code, same.outputs["verdict"]), same
    other = run_action(pairs, tmp_path / "other", tool=replayed, **{**PAIR, "drafter": "bad/my drafter"})
    assert (70, "") == (other.code, other.outputs["verdict"])
    changed = tmp_path / "it changed"
    shutil.copytree(pairs / "good", changed / "good")
    (changed / "good/my drafter/config.json").write_text("{}")
    after = run_action(changed, tmp_path / "after", tool=replayed, **PAIR)
    assert (70, "") == (after.code, after.outputs["verdict"])


def test_an_old_sarif_is_gone_when_nothing_was_verified(pairs: Path, tmp_path: Path) -> None:
    """What an earlier run left is removed first, so that it can't be uploaded for this one."""
    old = tmp_path / "old.sarif"
    old.write_text("{}")
    ran = run_action(pairs, tmp_path / "run", tool="#!/bin/sh\nexit 0\n", sarif=str(old), **PAIR)
    assert (70, False, False) == (ran.code, old.exists(), "sarif" in ran.outputs)


HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "x; touch pwned",
    '"; touch pwned; "',
    "' ; touch pwned ; '",
    "--help",
    "-q --exit-zero",
    "x\nverdict=pass",
    "x\rverdict=pass",
    "%0A::error::x",
    "*",
    "~",
)
PLACES = ("drafter", "target", "bundle", "quant", "checkpoint", "profile", "depth", "strict")


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, HOSTILE[0]) for name in PLACES), *((PLACES[n % 2], value) for n, value in enumerate(HOSTILE[1:]))],
)
def test_hostile_values_stay_values(pairs: Path, tmp_path: Path, name: str, value: str) -> None:
    """No value runs as a command, turns into an option, or writes an output of its own."""
    told = tmp_path / "told"
    tool = f"#!/bin/bash\nprintf '%s\\n' \"$@\" > '{told}'\nexit 3\n"
    inputs = {} if name == "bundle" else dict(PAIR)
    ran = run_action(pairs, tmp_path, tool=tool, **{**inputs, name: value})
    assert 2 == ran.code if "\n" in value or "\r" in value or name == "strict" else 3 == ran.code
    assert not list(pairs.rglob("pwned"))
    assert ran.outputs.get("verdict", "") == ""
    if ran.code == 3:
        words = told.read_text().splitlines()
        assert words[-2:] == ["--", value] if name == "drafter" else f"--{name}={value}" in words


def test_settings_of_the_checkout_do_not_weaken_the_gate(pairs: Path, tmp_path: Path) -> None:
    """A configuration file in the workspace, and FORGEPACK_* variables, are not read."""
    (pairs / "forgepack.toml").write_text('[verify]\ndepth = "header"\nnonsense = 1\n')
    try:
        ran = run_action(pairs, tmp_path, **{**PAIR, "depth": ""})
    finally:
        (pairs / "forgepack.toml").unlink()
    assert (0, "lineage") == (ran.code, json.loads(Path(ran.outputs["report"]).read_bytes())["depth"]), ran


def test_a_missing_tool_fails(pairs: Path, tmp_path: Path) -> None:
    """Where the installation left nothing, the gate fails."""
    ran = run_action(pairs, tmp_path, without="Install forgepack", install="true", **PAIR)
    assert (70, {}) == (ran.code, ran.outputs)


def test_an_installation_that_can_not_be_fails(pairs: Path, tmp_path: Path) -> None:
    """A Python that is too old or too new is told, and ends the action; nothing is verified."""
    (tmp_path / "tools").mkdir()
    old = tmp_path / "tools/python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    ran = run_action(pairs, tmp_path, install="true", **PAIR)
    assert (2, {}) == (ran.code, ran.outputs)
    assert "Python 3.11 to 3.14 is needed" in ran.out
