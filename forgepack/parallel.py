"""Work on fixed tiles by a few threads, each with single-threaded BLAS: equal bytes at any number of workers.

A matrix product may differ in its last bits when BLAS itself splits it over another number of threads (measured:
OpenBLAS 0.3.31, float64, 777 x 640 x 1311). So BLAS is pinned to one thread, work is split here at places that
depend on the shapes alone, and every tile is computed by one call in one thread. NumPy and BLAS release the
interpreter's lock inside the calls, so two workers do use two cores.

Overflow and invalid operations are silent inside a pool: the user of a result checks that it is finite, and names
the matrix or block, where a warning could not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forgepack.errors import UsageError

MAX_WORKERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Runs independent tasks; ``workers`` is the number of threads, never part of a result."""

    workers: int
    executor: ThreadPoolExecutor | None

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run every task once, in any order; the first failure is raised and cancels what has not begun."""
        if self.executor is None or len(tasks) < 2:
            for task in tasks:
                task()
            return
        futures = [self.executor.submit(_quietly, task) for task in tasks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        for future in futures:
            if not future.cancelled():
                future.result()

    def spans(self, total: int, step: int, task: Callable[[slice], None]) -> None:
        """Run ``task`` on consecutive slices of 0..total-1, each of ``step`` but for the last."""
        self.run([partial(task, span) for span in spans(total, step)])


def _quietly(task: Callable[[], None]) -> None:
    """Run a task with NumPy's warnings off: the setting belongs to a thread."""
    with np.errstate(over="ignore", invalid="ignore"):
        task()


def spans(total: int, step: int) -> list[slice]:
    """Return consecutive slices of length ``step`` that cover 0..total-1; the last may be shorter."""
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]


def even_spans(total: int, largest: int, *, start: int = 0) -> list[slice]:
    """Cover start..total-1 by an even number of slices of nearly equal length, none longer than ``largest``.

    So that two workers end together, whatever the shape. Lengths are multiples of 16 but for the last one.
    """
    length = max(total - start, 0)
    parts = 2 * -(-length // (2 * largest))
    step = min(largest, 16 * -(-length // (16 * max(parts, 1))))
    return [slice(start + part.start, start + part.stop) for part in spans(length, max(step, 1))]


@contextmanager
def open_pool(workers: int) -> Iterator[Pool]:
    """Pin BLAS to one thread a call and yield a Pool of ``workers`` threads; the old setting is restored."""
    from threadpoolctl import threadpool_limits

    if not 1 <= workers <= MAX_WORKERS:
        raise UsageError("the number of threads is out of range", expected=f"1..{MAX_WORKERS}", found=str(workers))
    with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        if workers == 1:
            yield Pool(workers=1, executor=None)
            return
        executor = ThreadPoolExecutor(workers, thread_name_prefix="forgepack")
        try:
            yield Pool(workers=workers, executor=executor)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def blas_identity() -> dict[str, Any]:
    """Name what float results depend on: BLAS libraries with version and kernel, NumPy and SciPy.

    The number of workers is left out, since results do not depend on it.
    """
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be listed)
    from scipy import __version__ as scipy_version
    from threadpoolctl import threadpool_info

    libraries = {
        f"{info['internal_api']} {info['version']} {info.get('architecture', 'unknown')}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }
    return {
        "blas": sorted(libraries),
        "blas_threads": 1,
        "numpy": np.__version__,
        "scipy": scipy_version,
    }


def gather(*tasks: Callable[[], Any], workers: int = 2) -> list[Any]:
    """Run tasks on a few threads (hashing releases the interpreter's lock) and return their results in order.

    The first failure in that order is raised.
    """
    with ThreadPoolExecutor(workers) as executor:
        return [future.result() for future in [executor.submit(task) for task in tasks]]
