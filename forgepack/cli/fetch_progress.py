"""Progress of a download on stderr: a live bar on a terminal, one plain line a phase on a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from forgepack.cli.common import Console
from forgepack.escaping import escape

if TYPE_CHECKING:
    from forgepack.hub import Effects, Progress

_VERBS = {
    "list": "listing the commit",
    "check": "checking",
    "download": "downloading",
    "copy": "copying",
    "publish": "writing the lock",
}


@contextmanager
def hub_effects(console: Console) -> Iterator[Effects]:
    """Yield effects whose progress goes to stderr: a live bar on a terminal, one plain line a phase elsewhere."""
    from forgepack.hub import Effects

    with LiveProgress() if console.live else PlainProgress(console) as progress:
        yield Effects(sleep=time.sleep, clock=time.monotonic, report=progress)


def _retry_line(path: str, note: str) -> str:
    """Return what went wrong; notes of the hub itself say so."""
    return f"fetch: {path}: {note}" if path else f"fetch: {note}"


class PlainProgress:
    """Says each phase of each file once, and every retry."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def __call__(self, progress: Progress) -> None:
        """Take one moment of the work."""
        if progress.phase == "retry":
            self._console.say(_retry_line(progress.path, progress.note))
            return
        if self._last == (progress.phase, progress.path):
            return
        self._last = (progress.phase, progress.path)
        size = f" ({progress.total:,} bytes)" if progress.total else ""
        self._console.say(f"fetch: {_VERBS[progress.phase]} {progress.path}".rstrip() + size)


class LiveProgress:
    """A bar for the file at work, with rate and time left."""

    def __init__(self) -> None:
        from rich import progress as bars
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bars = bars.Progress(
            bars.TextColumn("{task.fields[verb]:<11} {task.fields[file]}", markup=False),
            bars.BarColumn(),
            bars.DownloadColumn(),
            bars.TransferSpeedColumn(),
            bars.TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task: Any = None
        self._shown: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Take one moment of the work."""
        file = escape(progress.path)
        if progress.phase == "retry":
            line = _retry_line(file, escape(progress.note))
            self._console.print(line, markup=False, highlight=False)
            return
        if self._shown != (progress.phase, progress.path):
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._shown = (progress.phase, progress.path)
            verb = _VERBS[progress.phase]
            self._task = self._bars.add_task("", total=progress.total or None, verb=verb, file=file)
        self._bars.update(self._task, completed=progress.done)
