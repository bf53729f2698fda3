"""``python -m tests.disk.kills``: kill what replaces folders and files at random moments, and judge what is left.

A process that has imported everything forks a child for each run (``tests.disk.nursery``), so the moments fall into
the work itself. Half of the runs find an older output, half go on from what the killed run before them left. At the
end one whole run must give the bytes of a run that nothing disturbed, and leave nothing beside them.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.disk.cases import CASES, NEW, Case
from tests.disk.shim import shim_library

ROOT = Path(__file__).parents[2]
_KINDS = 4  # with and without an older output, from nothing and from what a killed run left
# The time of a whole run follows the machine: down with each run that was over, up with each kill.
_SHORTER, _LONGER = 0.9, 1.03


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What stood in the place after the kills, the runs that were over before theirs, and every fault."""

    places: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    faults: list[str] = field(default_factory=list)

    def lines(self, name: str) -> Iterator[str]:
        """Yield the outcome as text."""
        places = ", ".join(f"{count} {place}" for place, count in sorted(self.places.items()))
        yield f"{name}: {self.places.total()} kills, {len(self.faults)} faults; {self.missed} runs were over before"
        yield f"  the place after a kill: {places}"
        yield from (f"  FAULT: {text}" for text in self.faults)


@dataclass(frozen=True, slots=True)
class Nursery:
    """A process that forks a child for each run of one case."""

    process: subprocess.Popen[str]

    def run(self, seconds: float | None) -> int:
        """Run once, killed after ``seconds`` (None: never); return the child's exit code, negative for a signal."""
        pid = int(self._ask("run"))
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)  # the nursery has not waited for it yet: the number is still its own
        return int(self._ask("wait"))

    def _ask(self, word: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@contextmanager
def nursery(case: Case) -> Iterator[Nursery]:
    """Start the nursery of a case, on a file system that lacks what the case says."""
    library = shim_library()
    env = {**os.environ, **case.environment, **({} if library is None else {"LD_PRELOAD": str(library)})}
    command = [sys.executable, "-m", "tests.disk.nursery", case.name, str(case.root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


def kill(case: Case, *, rounds: int, seed: int, minutes: float = math.inf) -> Outcome:
    """Kill ``rounds`` running commands, then let one end; the outcome has every fault that was found.

    After ``minutes`` no other kill is begun: the outcome counts those that were.
    """
    draw, outcome = random.Random(seed), Outcome()
    with case.made(), nursery(case) as children:
        limits, end = {}, time.monotonic() + 60 * minutes
        for kind in range(_KINDS):
            case.reset(kind)
            started = time.perf_counter()
            if children.run(None):
                outcome.faults.append("a run that nothing disturbs fails")
            limits[kind] = time.perf_counter() - started
        while outcome.places.total() < rounds and not outcome.faults and time.monotonic() < end:
            number = outcome.places.total()
            case.reset(number)
            kind = number % _KINDS
            code = children.run(draw.uniform(0, limits[kind]))
            limits[kind] *= _SHORTER if code == 0 else _LONGER
            if code == 0:
                outcome.missed += 1
                continue
            place = case.judge(number)
            outcome.places[place.partition(":")[0]] += 1
            outcome.faults += [f"kill {number}: {place}"] if place.startswith("half") else []
            outcome.faults += [f"kill {number}: code {code}"] if code != -signal.SIGKILL else []
            outcome.faults += [f"kill {number}: {name} is half, and accepted" for name in case.staged()]
        if children.run(None):
            outcome.faults.append("the run after the last kill fails")
        if case.name != "replace" and case.found() != NEW:
            outcome.faults.append(f"the run after the last kill leaves {case.found()}")
        outcome.faults += [f"left behind: {name}" for name in case.left()]
    return outcome


def main() -> int:
    """Kill every case, say what happened; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.disk.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no other kill after so many, each case"
    )
    parser.add_argument("--only", choices=[case.name for case in CASES])
    args = parser.parse_args()
    found = {}
    for kind in (one for one in CASES if args.only in (None, one.name)):
        with TemporaryDirectory(prefix="forgepack-kills-") as name:
            started = time.perf_counter()
            outcome = kill(kind(Path(name).resolve()), rounds=args.rounds, seed=args.seed, minutes=args.minutes)
        found[kind.name] = outcome
        sys.stdout.write("\n".join(outcome.lines(kind.name)) + f"\n  {time.perf_counter() - started:.0f} s\n")
        sys.stdout.flush()
    return 1 if any(one.faults for one in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
