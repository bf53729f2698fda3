"""What this machine can do at this moment: ``python -m benchmarks.ceilings SCRATCH`` prints JSON.

An absolute time means little on a shared machine; a ratio to a ceiling of the same run does. Each ceiling is the best
of a few repetitions, as a rate a wall second and a rate a CPU second of this process: other processes lower the
first, and hardly the second.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A rate: ``wall`` a wall second, ``cpu`` a CPU second of this process (all its threads); ``unit`` a second."""

    wall: float
    cpu: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to measure: matrix width, bytes hashed and copied, bytes written, repetitions."""

    width: int
    memory: int
    disk: int
    repeats: int


FULL = Effort(width=4096, memory=1 << 28, disk=1 << 30, repeats=3)
QUICK = Effort(width=768, memory=1 << 24, disk=1 << 24, repeats=2)


def measure_ceilings(scratch: Path, effort: Effort = FULL, workers: int = 2) -> dict[str, Ceiling]:
    """Return all ceilings by name; ``<name>_<n>`` is measured on n threads."""
    out: dict[str, Ceiling] = {}
    for threads in sorted({1, workers}):
        for label, dtype in (("s", np.float32), ("d", np.float64)):
            for name, ceiling in _linear_algebra(dtype, threads, effort).items():
                out[f"{label}{name}_{threads}"] = ceiling
        out[f"sha256_{threads}"] = _sha256(threads, effort)
        out[f"copy_{threads}"] = _copy(threads, effort)
    out["first_touch"] = _first_touch(effort)
    out.update(_disk(scratch, effort))
    return out


def as_json(ceilings: dict[str, Ceiling]) -> dict[str, Any]:
    """Return the ceilings as a JSON object."""
    return {name: asdict(ceiling) for name, ceiling in ceilings.items()}


def best_of(left: dict[str, Ceiling], right: dict[str, Ceiling]) -> dict[str, Ceiling]:
    """Return the better of two measurements of each ceiling: nothing attains more than it."""
    return {
        name: replace(c, wall=max(c.wall, right[name].wall), cpu=max(c.cpu, right[name].cpu))
        for name, c in left.items()
    }


def best_rate(work: Callable[[], object], amount: float, unit: str, repeats: int) -> Ceiling:
    """Run ``work``, which does ``amount`` units, ``repeats`` times and return the best rates."""
    wall, cpu = [], []
    for _ in range(repeats):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
    return Ceiling(wall=amount / min(wall), cpu=amount / max(min(cpu), 1e-9), unit=unit)


def _linear_algebra(dtype: type[np.floating[Any]], threads: int, effort: Effort) -> dict[str, Ceiling]:
    from scipy.linalg import lapack
    from threadpoolctl import threadpool_limits

    n = effort.width
    left: npt.NDArray[Any] = np.random.default_rng(1).standard_normal((n, n)).astype(dtype)
    product = np.empty_like(left)
    potrf, trtri = (lapack.spotrf, lapack.strtri) if dtype is np.float32 else (lapack.dpotrf, lapack.dtrtri)
    with threadpool_limits(threads, user_api="blas"):
        np.matmul(left, left.T, out=product)
        product[np.diag_indices(n)] += n
        positive = np.asfortranarray(product)
        factor = potrf(positive, lower=1)[0]
        other = left + 1  # another buffer: a product with itself would be a symmetric update, half the work
        return {
            "gemm": best_rate(lambda: np.matmul(left, other, out=product), 2 * n**3, "flop", effort.repeats),
            "potrf": best_rate(lambda: potrf(positive, lower=1), n**3 / 3, "flop", effort.repeats),
            "trtri": best_rate(lambda: trtri(factor, lower=1), n**3 / 3, "flop", effort.repeats),
        }


def _in_threads(works: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(works)) as executor:
        for done in [executor.submit(work) for work in works]:
            done.result()


def _sha256(threads: int, effort: Effort) -> Ceiling:
    """Hash a buffer that fits no cache, one hash a thread."""
    data = memoryview(bytes(effort.memory))

    def work() -> None:
        digest = hashlib.sha256()
        for start in range(0, len(data), _CHUNK):
            digest.update(data[start : start + _CHUNK])

    return best_rate(lambda: _in_threads([work] * threads), threads * len(data), "byte", effort.repeats)


def _copy(threads: int, effort: Effort) -> Ceiling:
    """Copy memory; bytes read and bytes written both count."""
    source = np.ones(effort.memory, np.uint8)
    copies = [np.empty_like(source) for _ in range(threads)]
    works = [lambda copy=copy: np.copyto(copy, source) for copy in copies]
    return best_rate(lambda: _in_threads(works), 2 * threads * source.size, "byte", effort.repeats)


def _first_touch(effort: Effort) -> Ceiling:
    """Touch every page of fresh memory once: what each new page of a file or of a process costs.

    A virtual machine that gives free memory back to its host can be thirty times slower here than one that has used
    all of its memory before; whatever writes files is then bound by this.
    """

    def work() -> None:
        with mmap.mmap(-1, effort.disk) as fresh:
            np.frombuffer(fresh, np.uint8)[:: mmap.PAGESIZE].fill(1)

    return best_rate(work, effort.disk, "byte", 1)


def _disk(scratch: Path, effort: Effort) -> dict[str, Ceiling]:
    """Write and flush a file, read it from the page cache, and read it after the cache was told to drop it."""
    path = scratch / ".ceiling.bin"
    block = np.random.default_rng(2).bytes(_CHUNK)
    count = max(1, effort.disk // _CHUNK)

    def write() -> None:
        with path.open("wb") as handle:
            for _ in range(count):
                handle.write(block)
            handle.flush()
            os.fsync(handle.fileno())

    def read() -> None:
        buffer = bytearray(_CHUNK)
        with path.open("rb", buffering=0) as handle:
            while handle.readinto(buffer):
                pass

    def read_cold() -> None:
        if hasattr(os, "posix_fadvise"):
            with path.open("rb") as handle:
                os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        read()

    amount = count * _CHUNK
    try:
        return {
            "disk_write": best_rate(write, amount, "byte", effort.repeats),
            "disk_read_cached": best_rate(read, amount, "byte", effort.repeats),
            "disk_read": best_rate(read_cold, amount, "byte", effort.repeats),
        }
    finally:
        path.unlink(missing_ok=True)


def main() -> int:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ceilings", description=__doc__)
    parser.add_argument("scratch", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--quick", action="store_true", help="small matrices and files")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    ceilings = measure_ceilings(args.scratch, QUICK if args.quick else FULL)
    print(json.dumps(as_json(ceilings), indent=2, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
