"""What a download takes from its caller (effects) and gives back (progress, report)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepack.artifacts.lock import CheckpointLock
from forgepack.disk.space import free_bytes

Phase = Literal["list", "check", "download", "copy", "retry", "publish"]
Action = Literal["kept", "verified", "downloaded", "resumed", "copied", "adopted", "planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of the work: bytes ``done`` of ``total`` in this phase of this file, ``rate`` in bytes per second.

    ``rate`` is 0.0 until the clock has moved; ``note`` explains a retry.
    """

    phase: Phase
    path: str = ""
    done: int = 0
    total: int = 0
    rate: float = 0.0
    note: str = ""


def _ignore(_: Progress) -> None:
    """Drop a progress report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The outside world, injected: a sleep and a monotonic clock in seconds, a listener, the free space."""

    sleep: Callable[[float], None]
    clock: Callable[[], float]
    report: Callable[[Progress], None] = _ignore
    free: Callable[[Path], int] = free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to ask again: waits double from ``first_wait`` to ``longest_wait`` seconds.

    ``attempts`` are counted anew after an answer that brought ``fresh_after`` bytes, so that a long download over
    a bad line goes on for as long as it moves. A window of ``stall_window`` seconds that brings under
    ``stall_bytes`` counts as a cut.
    """

    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 30.0
    longest_ask: float = 300.0
    fresh_after: int = 1 << 20
    stall_window: float = 60.0
    stall_bytes: int = 60 << 10

    def wait(self, failures: int, asked: float | None) -> float:
        """Return the seconds to wait after ``failures`` in a row; ``asked`` is the server's Retry-After."""
        own = min(self.longest_wait, self.first_wait * 2.0 ** (failures - 1))
        return own if asked is None else max(own, min(asked, self.longest_ask))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What was done for one file; ``received`` counts bytes that came over the network in this run."""

    path: str
    bytes: int
    sha256: str | None
    action: Action
    received: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReport:
    """The outcome: what is in ``root`` now, or with ``dry_run`` what would be done.

    ``lock`` is None only in a dry run. ``needed`` and ``free`` are bytes of disk; ``notes`` are sentences that a
    person should read.
    """

    root: Path
    repo: str
    commit: str
    adopted: bool
    files: tuple[FileReport, ...]
    lock: CheckpointLock | None
    dry_run: bool = False
    needed: int = 0
    free: int | None = None
    notes: tuple[str, ...] = ()
