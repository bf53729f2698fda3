"""Fixed tiles on a few threads."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from forgepack.errors import UsageError
from forgepack.parallel import blas_identity, even_spans, open_pool, spans


def test_spans_cover_once() -> None:
    """Slices follow each other and cover the whole range."""
    assert [slice(0, 4), slice(4, 8), slice(8, 9)] == spans(9, 4)
    assert [] == spans(0, 4)


@pytest.mark.parametrize(
    ("total", "largest", "start"), [(5120, 4352, 0), (17408, 4352, 0), (9, 4, 0), (0, 4, 0), (99, 16, 50)]
)
def test_even_spans_cover_once_in_equal_parts(total: int, largest: int, start: int) -> None:
    """An even number of tasks, none over the limit, covers the range, so two workers end together."""
    found = even_spans(total, largest, start=start)
    assert list(range(start, total)) == [n for part in found for n in range(part.start, part.stop)]
    lengths = [part.stop - part.start for part in found]
    assert all(length <= largest for length in lengths)
    if total >= 5120:
        assert (0, 0) == (len(found) % 2, max(lengths) - min(lengths))


@pytest.mark.parametrize("workers", [1, 3])
def test_every_task_runs_once(workers: int) -> None:
    """All tasks have run when run returns."""
    seen: list[int] = []
    with open_pool(workers) as pool:
        pool.run([partial(seen.append, n) for n in range(20)])
    assert list(range(20)) == sorted(seen)


def test_tasks_run_at_the_same_time() -> None:
    """Two workers are two threads: both tasks are inside at once."""
    barrier = threading.Barrier(2, timeout=20)

    def meet() -> None:
        barrier.wait()

    with open_pool(2) as pool:
        pool.run([meet, meet])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_is_raised(workers: int) -> None:
    """The first exception of a task comes out of run."""

    def fail() -> None:
        raise ValueError("no")

    with open_pool(workers) as pool, pytest.raises(ValueError, match="no"):
        pool.run([fail, lambda: None])


def test_blas_is_pinned_inside_and_restored_after() -> None:
    """Every BLAS runs on one thread inside the pool."""

    def threads() -> list[int]:
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    np.ones((2, 2)) @ np.ones((2, 2))
    before = threads()
    with open_pool(2):
        assert all(n == 1 for n in threads())
    assert before == threads()


@pytest.mark.parametrize("workers", [0, -1, 65])
def test_workers_out_of_range_are_refused(workers: int) -> None:
    """The number of threads is bounded."""
    with pytest.raises(UsageError), open_pool(workers):
        pass


def test_identity_names_blas_and_no_thread_count_of_ours() -> None:
    """What results depend on is named; the number of workers is not among it."""
    with open_pool(1):
        one = blas_identity()
    with open_pool(3):
        three = blas_identity()
    assert one == three
    assert np.__version__ == one["numpy"]
    assert all("openblas" in name or name for name in one["blas"])
