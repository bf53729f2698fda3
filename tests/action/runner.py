"""Runs action.yml as a runner does: its steps' own shell, its expressions, a new folder for what is temporary."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.'= -]+?)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What the action did: exit code, both streams, and its outputs."""

    code: int
    out: str
    err: str
    outputs: dict[str, str]


def read_action() -> dict[str, Any]:
    """Return action.yml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return found


def steps_of(action: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the action's steps."""
    steps: list[dict[str, Any]] = action["runs"]["steps"]
    return steps


def run_action(workspace: Path, temporary: Path, tool: str | None = None, without: str = "", **inputs: str) -> Ran:
    """Run the action in ``workspace``; ``tool`` is a script in place of forgepack, ``without`` a step left out."""
    action = read_action()
    values = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()}
    assert set(inputs) <= set(values)
    values |= {"install": "false", "profile": "mini"} | inputs
    environment = _environment(temporary, tool)
    for step in steps_of(action):
        if step["name"] == without or ("if" in step and _value(step["if"], values) != "true"):
            continue
        own = {name: _value(text, values) for name, text in step["env"].items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=workspace, env=environment | own, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            break
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr, outputs=dict(_outputs(temporary)))


def _environment(temporary: Path, tool: str | None) -> dict[str, str]:
    tools = temporary / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    script = tools / "forgepack"
    script.write_text(tool or f'#!/bin/sh\nexec "{sys.executable}" -m forgepack "$@"\n')
    script.chmod(0o755)
    (temporary / "output").write_text("")
    return {
        "PATH": f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(temporary),
        "GITHUB_OUTPUT": str(temporary / "output"),
    }


def _value(text: str, inputs: dict[str, str]) -> str:
    """Return a text with its expressions replaced: inputs, the action's own path, one comparison."""

    def replace(match: re.Match[str]) -> str:
        name, _, other = match[1].partition(" == ")
        known = {f"inputs.{key}": value for key, value in inputs.items()} | {"github.action_path": str(ROOT)}
        return known[name] if not other else str(known[name] == other.strip("'")).lower()

    return _EXPRESSION.sub(replace, text)


def _outputs(temporary: Path) -> Iterator[tuple[str, str]]:
    for line in (temporary / "output").read_text().splitlines():
        name, _, value = line.partition("=")
        yield name, value
