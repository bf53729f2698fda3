"""``make torture``: kill quantize and emit at random moments, again and again, on the miniature.

Each round starts the command in a process of its own and kills it by SIGKILL: a quarter of them at a random time from
their start, the others at a random time from when they hold their work folder. In every second round an older output,
of other bytes, stands in the place that ``--force`` replaces; every second pair of rounds goes on from what the
killed run before it left. After each kill the place must hold what it held before or the whole new output, and
whatever the work folder holds must be whole or be refused by the command's own reader. After the last kill the
command runs to its end, and its bytes must be those of a run that was never disturbed. A round whose command ends
before its kill does not count, but must have succeeded. Moments come from a seed; what they hit is up to the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.run import REPOSITORY, environment
from forgepack.artifacts.quant import read_quant
from forgepack.disk.places import work_folder
from forgepack.errors import ForgepackError
from forgepack.profile import load_profile

PROFILE = "mini"
BEFORE = "starting, reading the inputs"
BEGUN = "hashing the inputs"
_GLANCE = 0.002
_SLOWER = 1.02  # the time of a whole run follows the machine: down with each run that was over, up with each kill
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A phase that has been reached once ``least`` paths in the work folder match ``pattern``."""

    phase: str
    pattern: str
    least: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A command and the folder that it publishes; ``arguments`` end where the folder's name goes.

    ``older`` is the same for other bytes. ``marks`` tell phases apart, the last one reached wins; ``staged`` matches
    a folder in the work folder that may look like an output, and ``accepts`` says whether it would be taken for one.
    """

    name: str
    arguments: tuple[str, ...]
    older: tuple[str, ...]
    marks: tuple[Mark, ...]
    staged: str
    accepts: Callable[[Path], bool]
    profile: str = PROFILE

    def command(self, out: Path, *, older: bool = False) -> list[str]:
        """Return the command line that publishes into ``out``, in place of what is there."""
        arguments = self.older if older else self.arguments
        return [sys.executable, "-m", "forgepack", *arguments, str(out), "--profile", self.profile, "--force"]

    def phase(self, work: Path) -> str:
        """Say how far a run that holds its work folder has come, by what is in it."""
        reached = [mark.phase for mark in self.marks if len(list(work.glob(mark.pattern))) >= mark.least]
        return reached[-1] if reached else BEGUN


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of the kills: how many hit each phase, what stood in the place after them, and what was wrong.

    ``faults`` names every half state and every run that failed without a kill; ``missed`` counts whole runs.
    """

    phases: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Number of commands that were killed alive."""
        return self.phases.total()

    def lines(self, victim: Victim) -> Iterator[str]:
        """Yield the outcome as text."""
        places = ", ".join(f"{count} {place}" for place, count in sorted(self.places.items()))
        yield f"{victim.name}: {self.kills} kills, {len(self.faults)} faults; {self.missed} runs were over before"
        yield f"  the place after a kill: {places}"
        order = [BEFORE, BEGUN, *(mark.phase for mark in victim.marks)]
        yield from (f"  {self.phases[phase]:>4}  {phase}" for phase in order if self.phases[phase])
        yield from (f"  FAULT: {text}" for text in self.faults)


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path; nothing where there is no folder."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def run_whole(command: list[str], work: Path) -> float:
    """Run to the end and return the seconds from when it held the work folder; CalledProcessError on a failure."""
    process = _start(command)
    _await_lock(process, work)
    began = time.perf_counter()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - began


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    null = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment(), stdout=null, stderr=null)


def _await_lock(process: subprocess.Popen[bytes], work: Path) -> None:
    while process.poll() is None and not _holds(process.pid, work):
        time.sleep(_GLANCE)


def _holds(pid: int, work: Path) -> bool:
    """Say whether a process has the work folder's lock open; where there is no /proc, whether it may have."""
    if not _PROC.is_dir():
        return work.is_dir()
    with contextlib.suppress(OSError):
        return any(link.samefile(work / "lock") for link in (_PROC / str(pid) / "fd").iterdir())
    return False


def torture(victim: Victim, folder: Path, *, rounds: int, seed: int) -> Outcome:
    """Kill ``rounds`` running commands; the outcome has every fault that was found."""
    draw, whole, old, out = random.Random(seed), folder / "whole", folder / "old", folder / "killed"
    run_whole(victim.command(old, older=True), work_folder(old))
    started = time.perf_counter()
    after_lock = run_whole(victim.command(whole), work_folder(whole))
    limits = {True: time.perf_counter() - started, False: after_lock}
    states = {"new": contents(whole), "old": contents(old)}
    outcome = Outcome()
    while outcome.kills < rounds:
        number = outcome.kills
        _prepare(out, old if number & 1 else None, fresh=not number & 2)
        from_start = number % 16 >= 12
        code, held, seconds = _kill(victim, out, from_start=from_start, limit=limits[from_start], draw=draw)
        if code == -signal.SIGKILL:
            _judge(victim, out, states, outcome, held=held)
            limits[from_start] *= _SLOWER
            continue
        outcome.missed += 1
        limits[from_start] = seconds
        if code or contents(out) != states["new"]:
            outcome.faults.append(f"before kill {number}: ended with {code}")
        if code:  # it never works: nothing is left to be killed
            return outcome
    run_whole(victim.command(out), work_folder(out))
    if contents(out) != states["new"]:
        outcome.faults.append(f"the bytes after {rounds} kills are others")
    left = sorted({p.name for p in folder.iterdir()} - {"killed", "old", "whole"})
    outcome.faults += [f"left behind: {name}" for name in left]
    return outcome


def _kill(
    victim: Victim, out: Path, *, from_start: bool, limit: float, draw: random.Random
) -> tuple[int, bool, float]:
    """Start the command, kill it within ``limit`` seconds; return its code, if it held its folder, its seconds."""
    process = _start(victim.command(out))
    if not from_start:
        _await_lock(process, work_folder(out))
    began = time.perf_counter()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(draw.uniform(0, limit))
    held = _holds(process.pid, work_folder(out))
    process.send_signal(signal.SIGKILL)
    return process.wait(), held, time.perf_counter() - began


def _prepare(out: Path, old: Path | None, *, fresh: bool) -> None:
    """Put the old output in the place, or clear it; ``fresh`` also clears what a killed run left."""
    shutil.rmtree(out, ignore_errors=True)
    if fresh:
        shutil.rmtree(work_folder(out), ignore_errors=True)
    if old is not None:
        shutil.copytree(old, out)


def _judge(victim: Victim, out: Path, states: dict[str, dict[str, bytes]], outcome: Outcome, *, held: bool) -> None:
    """Note where a kill hit, and whether the place or the work folder holds a half output."""
    number, work, found = outcome.kills, work_folder(out), contents(out)
    place = next((name for name, state in states.items() if state == found), "half")
    if not out.exists():
        place = "absent"
    expected = {"new", "old" if number & 1 else "absent"}
    outcome.phases[victim.phase(work) if held else BEFORE] += 1
    outcome.places[place] += 1
    if place not in expected:
        outcome.faults.append(f"kill {number}: {out.name} is {place}, expected {' or '.join(sorted(expected))}")
    for staged in work.glob(victim.staged):
        if contents(staged) not in states.values() and victim.accepts(staged):
            outcome.faults.append(f"kill {number}: {staged.relative_to(work)} is half, and accepted")


def quantize_victim(checkpoint: Path, *, traces: Path, target: Path, profile: str = PROFILE) -> Victim:
    """Return quantize on one pair; the older output is plain rounding's."""
    inputs = ("quantize", str(checkpoint), "--traces", str(traces), "--target", str(target))
    geometry = load_profile(profile).geometry

    def accepts(folder: Path) -> bool:
        try:
            read_quant(folder, geometry)
        except ForgepackError:
            return False
        return True

    parts = "parts/*.safetensors"
    shares = ((1, "1 matrix or more finished"), (9, "9 or more"), (18, "18 or more"))
    marks = [Mark(phase=phase, pattern=parts, least=least) for least, phase in shares]
    marks.append(Mark(phase="joining the matrices", pattern="out"))
    return Victim(
        name="quantize",
        arguments=(*inputs, "--out"),
        older=(*inputs, "--method", "rtn", "--out"),
        marks=tuple(marks),
        staged="out",
        accepts=accepts,
        profile=profile,
    )


def emit_victim(quant: Path, older: Path, *, checkpoint: Path, target: Path, profile: str = PROFILE) -> Victim:
    """Return emit on one pair; the older output is the package of another quantization."""
    rest = ("--checkpoint", str(checkpoint), "--target", str(target))

    def accepts(folder: Path) -> bool:
        command = ["verify", str(folder), "--target", str(target), "--profile", profile, "-q"]
        run = [sys.executable, "-m", "forgepack", *command]
        done = subprocess.run(run, cwd=REPOSITORY, env=environment(), capture_output=True, check=False)
        return done.returncode == 0

    asset = "stage-*/package/*.aimodel"
    marks = (
        Mark(phase="computing constants", pattern="stage-*/constants.bin"),
        Mark(phase="authoring the asset", pattern=asset),
        Mark(phase="the asset is written", pattern=f"{asset}/main.mlirb"),
        Mark(phase="writing the files beside it", pattern="stage-*/package/config.json"),
        Mark(phase="the sidecar is written", pattern="stage-*/package/dflash2_*.json"),
    )
    return Victim(
        name="emit",
        arguments=("emit", str(quant), *rest, "--out"),
        older=("emit", str(older), *rest, "--out"),
        marks=marks,
        staged="stage-*/package",
        accepts=accepts,
        profile=profile,
    )


def main() -> int:
    """Build the miniature's pair, torture both commands, and say what happened; 1 where anything was wrong."""
    from forgepack.miniature.data import find_miniature

    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", choices=("quantize", "emit"))
    args = parser.parse_args()
    mini, faults = find_miniature(), 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        forgepack = [sys.executable, "-m", "forgepack"]
        checkpoint = root / "demo" / "checkpoint"
        victim = quantize_victim(checkpoint, traces=mini.calibration, target=mini.target)
        scales = ("--mask-scale", "0.65", "--deploy-mask-scale", "0.7")
        other = [*forgepack, *victim.arguments, str(root / "other"), *scales]
        for command in ([*forgepack, "demo", "--work", str(root / "demo")], [*other, "--profile", PROFILE]):
            subprocess.run(command, cwd=REPOSITORY, env=environment(), check=True, capture_output=True)
        quant = root / "demo" / "quant"
        emit = emit_victim(quant, root / "other", checkpoint=checkpoint, target=mini.target)
        for each in (one for one in (victim, emit) if args.only in (None, one.name)):
            folder = root / each.name
            folder.mkdir()
            started = time.perf_counter()
            outcome = torture(each, folder, rounds=args.rounds, seed=args.seed)
            print("\n".join([*outcome.lines(each), f"  {time.perf_counter() - started:.0f} s"]), flush=True)
            faults += len(outcome.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
