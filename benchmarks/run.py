"""``make bench`` and ``make bench-full``: measure quantize, emit, verify and start-up, print a table, write JSON.

Each command runs as a whole process on a synthetic release (``benchmarks.synthetic``) in a scratch directory. The
machine's ceilings are measured before and after, in the same run; ratios compare rates a CPU second, which other
processes hardly disturb, and rates a wall second, which they do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ceilings import FULL, QUICK, as_json, best_of, measure_ceilings
from benchmarks.measure import Usage, median_wall, run_measured
from benchmarks.operations import count_operations
from benchmarks.scales import SCALES
from benchmarks.synthetic import NoSpaceError, Release, make_release
from benchmarks.table import render
from forgepack.artifacts.traces import read_traces
from forgepack.canonical import dump_canonical
from forgepack.quantize.steps import Rows, count_rows

REPOSITORY = Path(__file__).resolve().parents[1]
STEPS = ("startup", "quantize", "emit", "verify")
DEPTHS = ("header", "hash", "lineage")
_WORK = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One benchmark run: the release, where it writes, threads, and the interpreter."""

    release: Release
    workers: int
    depths: tuple[str, ...]
    repeats: int

    @property
    def out(self) -> Path:
        """Folder for quantizations and packages."""
        return self.release.root / _WORK

    def command(self, *arguments: str | Path) -> list[str]:
        """Return a forgepack command line on this release's profile."""
        return [
            sys.executable,
            "-m",
            "forgepack",
            *map(str, arguments),
            "--profile",
            str(self.release.profile),
        ]

    def run(self, command: list[str]) -> Usage:
        """Run a command in the repository; a failure ends the benchmark with its output."""
        usage = run_measured(command, cwd=REPOSITORY, env=environment())
        if usage.code:
            sys.exit(f"{' '.join(command)}\nended with {usage.code}:\n{usage.output}")
        return usage


def environment() -> dict[str, str]:
    """Return this process's environment, the repository importable, bytecode kept as an installed tool has it."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"}


def bench_startup(bench: Bench) -> dict[str, Any]:
    """Measure a bare interpreter, ``--help``, and ``verify --depth header`` on the package, where there is one."""
    python = [sys.executable]
    out = {
        "python": median_wall([*python, "-c", "pass"], repeats=bench.repeats, env=environment()),
        "help": median_wall([*python, "-m", "forgepack", "--help"], repeats=bench.repeats, env=environment()),
    }
    if (bench.out / "drafter").is_dir():
        command = bench.command(
            "verify", bench.out / "drafter", "--target", bench.release.target, "--depth", "header"
        )
        out["verify_header"] = median_wall(command, repeats=bench.repeats, env=environment())
    return out


def bench_quantize(bench: Bench) -> dict[str, Any]:
    """Quantize from nothing; the output is kept for the next steps."""
    release, out = bench.release, bench.out / "quant"
    _clear(bench.out, "quant")
    record = bench.out / "phases.json"
    command = bench.command("quantize", release.checkpoint, "--traces", release.traces("calibration"))
    command += ["--held-out", str(release.traces("held_out")), "--target", str(release.target), "--out", str(out)]
    command += ["--threads", str(bench.workers)]
    command[2:3] = ["benchmarks.phases", str(record)]
    usage = bench.run(command)
    report = json.loads((out / "report.json").read_bytes())
    return {
        **usage.as_json(),
        "phases": json.loads(record.read_bytes()),
        "operations": count_operations(release.scale.profile.geometry, walked_rows(release)),
        "totals": report["totals"],
        "output_sha256": report["output"]["sha256"],
    }


def walked_rows(release: Release) -> Rows:
    """Count the rows that the traces' schedule walks."""
    g = release.scale.profile.geometry
    calibration, held_out = (read_traces(release.traces(split), g) for split in ("calibration", "held_out"))
    return count_rows(calibration.sequences, held_out.sequences, g)


def bench_emit(bench: Bench) -> dict[str, Any]:
    """Emit the package; ``bytes`` are those of everything it holds.

    ``proof`` is what ``--dry-run`` took just before: it proves the same inputs and writes nothing, so the rest of the
    wall time is what the package costs.
    """
    release, out = bench.release, bench.out / "drafter"
    _clear(bench.out, "drafter")
    command = bench.command("emit", bench.out / "quant", "--checkpoint", release.checkpoint)
    command += ["--target", str(release.target), "--out", str(out)]
    proof = bench.run([*command, "--dry-run"])
    return {**bench.run(command).as_json(), "bytes": bytes_below(out), "proof": proof.wall}


def bench_verify(bench: Bench) -> dict[str, Any]:
    """Verify the package at each depth; ``bytes`` are those of package and target together.

    ``hashed`` is what hashlib takes for the same files, read just before: the second of two passes, so that both
    find in memory what fits there.
    """
    release, package = bench.release, bench.out / "drafter"
    read = {"package": bytes_below(package), "target": bytes_below(release.target)}
    out: dict[str, Any] = {}
    for depth in bench.depths:
        hashed = [hash_plainly((package, release.target), bench.workers) for _ in range(2)][-1]
        command = bench.command("verify", package, "--target", release.target, "--depth", depth)
        out[depth] = {**bench.run(command).as_json(), "bytes": read, "hashed": hashed}
    return out


def hash_plainly(folders: Iterable[Path], workers: int) -> float:
    """Return the seconds in which hashlib digests every file below the folders, each read once."""
    files = sorted(
        (p for folder in folders for p in folder.rglob("*") if p.is_file()), key=lambda p: -p.stat().st_size
    )

    def digest(path: Path) -> str:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()

    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(digest, files))
    return time.perf_counter() - started


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _clear(out: Path, name: str) -> None:
    """Remove an earlier output and the work folder of a run that was killed."""
    out.mkdir(parents=True, exist_ok=True)
    for path in (out / name, *out.glob(f".{name}.*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def run_benchmark(bench: Bench, steps: tuple[str, ...], scratch: Path) -> dict[str, Any]:
    """Measure ceilings, the steps in the order of the work, and ceilings again."""
    effort = QUICK if bench.release.scale.name == "small" else FULL
    before = measure_ceilings(scratch, effort, bench.workers)
    results: dict[str, Any] = {}
    work = {"quantize": bench_quantize, "emit": bench_emit, "verify": bench_verify, "startup": bench_startup}
    for step, measure in work.items():
        if step in steps:
            print(f"{step} ...", file=sys.stderr, flush=True)
            results[step] = measure(bench)
    after = measure_ceilings(scratch, effort, bench.workers)
    return {
        "schema": "forgepack.bench/1",
        "scale": bench.release.scale.name,
        "machine": {
            "cpus": os.cpu_count(),
            "load": list(os.getloadavg()),
            "platform": platform.platform(),
            "python": platform.python_version(),
            "workers": bench.workers,
        },
        "ceilings": as_json(best_of(before, after)),
        "results": results,
    }


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("scratch", type=Path, help="a directory outside the repository; full size needs 30 GB")
    parser.add_argument("--scale", choices=SCALES, default="medium")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP")
    parser.add_argument("--depths", nargs="+", choices=[*DEPTHS, "run"], default=list(DEPTHS), metavar="DEPTH")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=20, help="runs of a start-up time")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "build" / "bench.json")
    args = parser.parse_args(arguments)
    if args.scratch.resolve().is_relative_to(REPOSITORY):
        parser.error("the scratch directory must lie outside the repository")
    return args


def main() -> int:
    """Make the release, measure, print the table and write the JSON."""
    args = parse_arguments()
    try:
        release = make_release(
            args.scratch, args.scale, workers=args.workers, tell=lambda text: print(text, file=sys.stderr)
        )
    except NoSpaceError as err:
        sys.exit(str(err))
    bench = Bench(release=release, workers=args.workers, depths=tuple(args.depths), repeats=args.repeats)
    outcome = run_benchmark(bench, tuple(args.steps), args.scratch)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_bytes(dump_canonical(outcome))
    print(render(outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
