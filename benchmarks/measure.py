"""One command as a whole process: wall, user and system time, and the peak memory of its process tree.

Memory is sampled from /proc every few milliseconds, so a shorter peak may be missed; ``ru_maxrss`` of the command's
largest process is exact and reported beside it. Where there is no /proc, only that is known.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_INTERVAL = 0.02
_PROC = Path("/proc")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a command took: seconds and bytes. ``anonymous`` and ``resident`` sum up the tree, None without /proc.

    ``largest`` is the peak resident size of the largest single process, as the kernel counted it.
    """

    wall: float
    user: float
    system: float
    resident: int | None
    anonymous: int | None
    largest: int
    code: int
    output: str

    def as_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        values = asdict(self)
        del values["output"]
        return values


class _Sampler:
    """Samples the memory of a process tree until stopped."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.resident: int | None = None
        self.anonymous: int | None = None

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while _PROC.is_dir():
            self._sample()
            if self._stop.wait(_INTERVAL):
                return

    def _sample(self) -> None:
        resident, anonymous = 0, 0
        for pid in process_tree(self._pid):
            found = memory_of(pid)
            resident, anonymous = resident + found[0], anonymous + found[1]
        self.resident = max(self.resident or 0, resident)
        self.anonymous = max(self.anonymous or 0, anonymous)


def process_tree(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants, as /proc lists them now."""
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        yield current
        try:
            tasks = list((_PROC / str(current) / "task").iterdir())
        except OSError:
            continue  # it has ended meanwhile
        for task in tasks:
            try:
                waiting += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue


def memory_of(pid: int | str) -> tuple[int, int]:
    """Return a process's resident and anonymous bytes now (``self`` is this one), 0 when it has ended."""
    try:
        text = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    resident, anonymous = (int(fields.get(key, "0").split()[0]) * _KIB for key in ("VmRSS", "RssAnon"))
    return resident, anonymous


def run_measured(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Usage:
    """Run a command to its end and measure it; its output is kept, the last 4000 characters of it."""
    with tempfile.TemporaryFile() as log:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=cwd
        )
        with _Sampler(process.pid) as sampler:
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # already waited for: Popen must not do it again
        log.seek(max(0, log.seek(0, 2) - 4000))
        output = log.read().decode("utf-8", "replace")
    unit = 1 if sys.platform == "darwin" else _KIB
    return Usage(
        wall=wall,
        user=usage.ru_utime,
        system=usage.ru_stime,
        resident=sampler.resident,
        anonymous=sampler.anonymous,
        largest=usage.ru_maxrss * unit,
        code=process.returncode,
        output=output,
    )


def median_wall(command: Sequence[str], *, repeats: int, env: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run a command ``repeats`` times; return median and best wall time and the median CPU time, in seconds."""
    runs = [run_measured(command, env=env) for _ in range(repeats)]
    return {
        "median": statistics.median(r.wall for r in runs),
        "best": min(r.wall for r in runs),
        "cpu": statistics.median(r.user + r.system for r in runs),
        "repeats": repeats,
        "code": max(r.code for r in runs),
    }
