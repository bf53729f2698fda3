"""Progress of work in steps on stderr: a live bar with time left on a terminal, one line a step elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from forgepack.cli.common import Console
from forgepack.escaping import escape


class StepProgress:
    """Says what a step is at, and shows how far it is where a live display may be drawn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Any = None
        self._task: Any = None
        self._step = ""

    def __enter__(self) -> Self:
        if self._console.live:
            from rich import progress as bars
            from rich.console import Console

            self._bars = bars.Progress(
                bars.TextColumn("{task.fields[step]}", markup=False),
                bars.BarColumn(),
                bars.TaskProgressColumn(),
                bars.TextColumn("{task.fields[name]}", markup=False),
                bars.TimeElapsedColumn(),
                bars.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, step: str, text: str) -> None:
        """Print one line."""
        if self._bars is None:
            self._step = step  # its first line is printed
            self._console.say(f"{step}: {text}")
        else:
            self._bars.console.print(f"{step}: {escape(text)}", markup=False, highlight=False)

    def advance(self, step: str, done: int, total: int, name: str = "") -> None:
        """Show that ``done`` of ``total`` of a step is done; 0 of 0 says that it has begun."""
        if step != self._step:
            self._step = step
            if self._bars is None:
                self._console.say(f"{step} ...")
            elif self._task is not None:
                self._bars.remove_task(self._task)
            self._task = None if self._bars is None else self._bars.add_task("", total=None, step=step, name="")
        if self._bars is not None:
            self._bars.update(self._task, completed=done, total=total or None, name=escape(name))
