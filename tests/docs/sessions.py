"""Sessions that pages show are run as they stand, in one shell a page, and what they print is compared.

A line ``...`` stands for any lines, ``…`` for any text within a line. Whole numbers must be equal; numbers with a
point may differ a little, since another processor gives other last bits. Folders are made of the miniature.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from forgepack.cli.main import run
from forgepack.miniature.data import PROFILE
from forgepack.miniature.scene import Scene
from tests.docs.pages import ROOT, Block, Step

_MARK = "\x1e"
_NUMBER = re.compile(r"[+-]?\d+\.\d+")
_DIGEST = re.compile(r"\b[0-9a-f]{40,}\b")
_TOLERANCE = 0.12
_KEPT = ("PATH", "LANG", "TMPDIR", "SYSTEMROOT", "OMP_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step did: its exit code and its lines, stdout and stderr as they came."""

    code: int
    lines: tuple[str, ...]


def set_scene(name: str, folder: Path, built: Scene) -> dict[str, str]:
    """Fill an empty folder for a page's sessions and return the variables that its shell has beside its own.

    ``empty`` holds nothing. ``pair`` holds what a release engineer has: checkpoint, target, traces, and what the
    steps made of them, with an older quantization and its package in older/ and the wrong head in stale/.
    """
    if name == "empty":
        return {}
    for source, out in (
        (built.checkpoint, "checkpoint"),
        (built.quant, "quant"),
        (built.drafter, "drafter"),
        (older(built), "older"),
        (built.miniature.target, "target"),
        (built.miniature.stale_head.parent, "stale"),
    ):
        shutil.copytree(source, folder / out, copy_function=shutil.copyfile)
    shutil.copyfile(built.miniature.calibration, folder / "traces.npz")
    shutil.copyfile(built.miniature.held_out, folder / "heldout.npz")
    return {"FORGEPACK_PROFILE": PROFILE}


def older(built: Scene) -> Path:
    """Return a folder with an older quantization, calibrated at another mask scale, and its package; made once."""
    folder, mini = built.work / "older", built.miniature
    if not folder.exists():
        folder.mkdir()
        quant = folder / "quant"
        inputs = ["--traces", mini.calibration, "--held-out", mini.held_out, "--target", mini.target, "--out", quant]
        scales = ["--mask-scale", "1", "--deploy-mask-scale", "0.7", "--threads", "1"]
        words = ["quantize", built.checkpoint, "--profile", PROFILE, *inputs, *scales, "-q"]
        assert 0 == run([str(word) for word in words])
        built.emit(folder / "drafter", quant=quant)
    return folder


def play(blocks: list[Block], folder: Path, variables: dict[str, str]) -> list[Outcome]:
    """Run the steps of all blocks in one shell in ``folder`` and return what each did."""
    steps = [step for block in blocks for step in block.steps]
    script = "\n".join(f"{{ {step.command}\n}} 2>&1; printf '{_MARK}%d{_MARK}' $?" for step in steps)
    tools = folder.parent / "tools"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(tools) | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    parts = done.stdout.split(_MARK)
    assert 2 * len(steps) + 1 == len(parts), done.stderr
    hidden = f"{folder.resolve()}/"
    return [
        Outcome(code=int(code), lines=tuple(text.replace(hidden, "").rstrip("\n").splitlines()))
        for text, code in zip(parts[::2], parts[1::2], strict=False)
    ]


def _environment(tools: Path) -> dict[str, str]:
    """Return a plain environment with ``forgepack`` on the path and nothing of this machine's settings."""
    tools.mkdir(exist_ok=True)
    tool = tools / "forgepack"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forgepack "$@"\n')
    tool.chmod(0o755)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = f"{tools}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tools), "COLUMNS": "80", "NO_COLOR": "1"}


def fault_of(step: Step, outcome: Outcome) -> str | None:
    """Return how an outcome differs from what the page shows; None when it does not. No lines shown: any will do."""
    if step.code != outcome.code:
        shown = "\n".join(outcome.lines[-12:])
        return f"$ {step.command}\nends with {outcome.code}, not {step.code}:\n{shown}"
    if step.output and not _alike(step.output, outcome.lines):
        return f"$ {step.command}\nprints now:\n" + "\n".join(outcome.lines)
    return None


def _alike(shown: tuple[str, ...], found: tuple[str, ...]) -> bool:
    """Whether the lines are those that are shown; ``...`` takes as few as will do."""
    if not shown:
        return not found
    if shown[0].strip() == "...":
        return any(_alike(shown[1:], found[n:]) for n in range(len(found) + 1))
    return bool(found) and _line_alike(shown[0], found[0]) and _alike(shown[1:], found[1:])


def _line_alike(shown: str, found: str) -> bool:
    if shown.rstrip() == found.rstrip():
        return True
    parts = [_pattern(part) for part in shown.rstrip().split("…")]
    match = re.fullmatch(".*".join(parts), found.rstrip())
    if match is None:
        return False
    wanted = _NUMBER.findall(shown.replace("…", " "))
    return all(
        abs(float(a) - float(b)) <= max(_TOLERANCE, _TOLERANCE * abs(float(a)))
        for a, b in zip(wanted, match.groups(), strict=True)
    )


def _pattern(part: str) -> str:
    """Return a regular expression for text in which numbers with a point, and the space before them, may change."""
    pieces = _NUMBER.split(part)
    return r"([+-]?\d+\.\d+)".join(re.escape(piece).replace(r"\ ", " +") for piece in pieces)


def rewritten(text: str, blocks: list[Block], outcomes: list[Outcome]) -> str:
    """Return a page with the output of each step that differs replaced by what it prints now, digests left out."""
    rest = list(outcomes)
    for block in reversed(blocks):
        taken = [rest.pop() for _ in block.steps][::-1]
        lines = []
        for step, outcome in zip(block.steps, taken, strict=True):
            stale = step.output and fault_of(step, outcome) is not None
            lines.append(f"$ {step.command}")
            lines += [_DIGEST.sub("…", line).rstrip() for line in outcome.lines] if stale else step.output
        text = text[: block.start] + "\n".join(lines) + "\n" + text[block.end :]
    return text
