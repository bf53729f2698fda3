"""``make torture``: kill quantize and emit at random moments, again and again, on the miniature.

Each round starts the command in a process of its own and kills it by SIGKILL after a random time, up to what a whole
run took. After every kill the output must be absent or whole; after the last one the command runs to its end, and its
bytes must be those of a run that was never disturbed. Moments come from a seed, but what they hit is up to the
machine.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.run import REPOSITORY, environment

PROFILE = "mini"


class TornError(Exception):
    """An output that is neither absent nor whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A command and the folder that it publishes; ``arguments`` end where the folder's name goes."""

    name: str
    arguments: tuple[str, ...]
    profile: str = PROFILE

    def command(self, out: Path) -> list[str]:
        """Return the command line that publishes into ``out``."""
        return [sys.executable, "-m", "forgepack", *self.arguments, str(out), "--profile", self.profile]


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def run_whole(victim: Victim, out: Path) -> float:
    """Run to the end and return the seconds that it took; CalledProcessError when it fails."""
    started = time.perf_counter()
    subprocess.run(victim.command(out), cwd=REPOSITORY, env=environment(), check=True, capture_output=True)
    return time.perf_counter() - started


def torture(victim: Victim, folder: Path, *, rounds: int, seed: int) -> int:
    """Kill ``rounds`` runs and return how many had published by then; TornError on anything half."""
    draw, whole, out = random.Random(seed), folder / "whole", folder / "killed"
    seconds = run_whole(victim, whole)
    expected, published = contents(whole), 0
    for number in range(rounds):
        child = subprocess.Popen(
            victim.command(out),
            cwd=REPOSITORY,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(draw.uniform(0, seconds))
        child.send_signal(signal.SIGKILL)
        child.wait()
        if out.exists():
            published += 1
            if contents(out) != expected:
                raise TornError(f"{victim.name}: round {number} left a half output in {out}")
            for path in sorted(out.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            out.rmdir()
    run_whole(victim, out)
    if contents(out) != expected:
        raise TornError(f"{victim.name}: the bytes after {rounds} kills are others")
    left = sorted(p.name for p in folder.iterdir())
    if left != ["killed", "whole"]:
        raise TornError(f"{victim.name}: left behind {', '.join(left)}")
    return published


def victims(checkpoint: Path, *, traces: Path, target: Path, quant: Path) -> tuple[Victim, Victim]:
    """Return quantize and emit on one pair; ``quant`` is a finished quantization for emit."""
    quantize = ("quantize", str(checkpoint), "--traces", str(traces), "--target", str(target), "--out")
    emit = ("emit", str(quant), "--checkpoint", str(checkpoint), "--target", str(target), "--out")
    return Victim(name="quantize", arguments=quantize), Victim(name="emit", arguments=emit)


def main() -> int:
    """Build the miniature's pair, torture both commands, and say what happened."""
    from forgepack.miniature.data import find_miniature

    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    mini = find_miniature()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        demo = [sys.executable, "-m", "forgepack", "demo", "--work", str(root / "demo")]
        subprocess.run(demo, cwd=REPOSITORY, env=environment(), check=True, capture_output=True)
        built = root / "demo"
        pair = victims(built / "checkpoint", traces=mini.calibration, target=mini.target, quant=built / "quant")
        for victim in pair:
            folder = root / victim.name
            folder.mkdir()
            published = torture(victim, folder, rounds=args.rounds, seed=args.seed)
            print(f"{victim.name}: {args.rounds} kills, {published} after publishing; nothing half, same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
