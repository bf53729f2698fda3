"""The pre-commit hooks: each ends as its command does, through the entry that pre-commit starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from forgepack.cli.main import run
from tests.action.runner import ROOT

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


def start(hook: str, workspace: Path, tools: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Start a hook as pre-commit does: the words of its entry, then the user's, in the repository's root."""
    tools.mkdir(exist_ok=True)
    tool = tools / "forgepack"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forgepack "$@"\n')
    tool.chmod(0o755)
    entry = next(one["entry"] for one in HOOKS if one["id"] == hook).split()
    env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run([*entry, *args], cwd=workspace, env=env, capture_output=True, text=True, check=False)


def test_hooks_run_always_and_take_no_file_names() -> None:
    """A pair is judged whole, whatever was changed: a hook that is skipped is no gate."""
    assert ["forgepack-verify", "forgepack-gate"] == [hook["id"] for hook in HOOKS]
    for hook in HOOKS:
        assert (True, False, "python") == (hook["always_run"], hook["pass_filenames"], hook["language"])


@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 1)])
def test_verify_hook_passes_a_good_pair_and_refuses_a_bad_one(
    pairs: Path, tmp_path: Path, name: str, code: int
) -> None:
    """The hook ends with the code of the verification and tells the rule."""
    pair = [f"{name}/my drafter", "--target", f"{name}/target", "--profile", "mini"]
    done = start("forgepack-verify", pairs, tmp_path / "tools", *pair)
    assert (code, code == 1) == (done.returncode, "HEAD003" in done.stdout), done
    assert 2 == start("forgepack-verify", pairs, tmp_path / "tools").returncode


def test_gate_hook_fails_without_its_report(pairs: Path, tmp_path: Path) -> None:
    """A report that is missing, empty or not to be parsed fails; a true one that meets the rule passes."""
    held_out = str(ROOT / "fixtures/mini/traces/heldout.npz")
    given = ["--target", str(pairs / "good/target"), "--traces", held_out, "--workload", "held-out"]
    out = ["--report", str(tmp_path / "report.json"), "--profile", "mini", "--threads", "1"]
    assert 0 == run(["replay", str(pairs / "good/my drafter"), *given, *out])
    args = ["report.json", "--policy", "policy.json"]
    bound = ["--drafter", str(pairs / "good/my drafter"), "--profile", "mini"]
    template = start("forgepack-gate", tmp_path, tmp_path / "tools", "report.json", "--template", *bound)
    (tmp_path / "policy.json").write_text(template.stdout)
    assert 0 == start("forgepack-gate", tmp_path, tmp_path / "tools", *args).returncode
    for text in ("", "{", "null", "{}"):
        (tmp_path / "report.json").write_text(text)
        assert 1 == start("forgepack-gate", tmp_path, tmp_path / "tools", *args).returncode, text
    (tmp_path / "report.json").unlink()
    assert 2 == start("forgepack-gate", tmp_path, tmp_path / "tools", *args).returncode
