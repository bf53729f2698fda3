"""Progress of ``forgepack quantize`` on stderr: matrix, rate and time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from forgepack.cli.common import Console
from forgepack.escaping import escape

if TYPE_CHECKING:
    from forgepack.quantize.progress import Progress

Clock = Callable[[], float]
_GIGA = 1e9


class Pace:
    """Rate and time left, from counted operations and a clock in seconds that starts now.

    The counted operations are those that the work can't do without, so the rate is that of useful work.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._noted = clock()
        self._done = self._total = 0.0

    def note(self, done: float, total: float) -> None:
        """Take it that ``done`` of ``total`` operations are done now."""
        self._noted, self._done, self._total = self._clock(), done, total

    @property
    def rate(self) -> str:
        """The mean rate up to the last note."""
        seconds = self._noted - self._began
        return f"{self._done / seconds / _GIGA:.1f} Gflop/s" if self._done and seconds > 0 else "- Gflop/s"

    @property
    def left(self) -> str:
        """The time left at that rate, as h:mm:ss."""
        if not self._done:
            return "-:--:-- left"
        expected = (self._noted - self._began) * (self._total - self._done) / self._done
        seconds = max(0, round(expected - (self._clock() - self._noted)))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


@contextmanager
def listening(console: Console, *, clock: Clock) -> Iterator[Callable[[Progress], None]]:
    """Yield a listener: a live bar on a terminal, one line a matrix elsewhere when verbose."""
    pace = Pace(clock)
    if console.live:
        with live_bar(pace, clock=clock) as show:
            yield show
        return

    def say(now: Progress) -> None:
        pace.note(now.operations, now.operations_total)
        kept = " (from an earlier run)" if now.resumed else ""
        console.detail(f"quantize: {now.done}/{now.total} {now.name}{kept}, {pace.rate}, {pace.left}")

    console.say("quantize: calibrating and rounding, layer by layer")
    yield say


@contextmanager
def live_bar(pace: Pace, *, clock: Clock, console: Any = None) -> Iterator[Callable[[Progress], None]]:
    """Yield a listener that draws the bar: the matrix at work, the share of the operations, matrices, rate, times."""
    from rich import progress as bars
    from rich.console import Console
    from rich.text import Text

    class Left(bars.ProgressColumn):
        """The time left, which runs down between two notes."""

        def render(self, task: bars.Task) -> Text:
            return Text(pace.left)

    columns = (
        bars.TextColumn("{task.fields[name]}", markup=False),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[matrices]}", markup=False),
        bars.TextColumn("{task.fields[rate]}", markup=False),
        bars.TimeElapsedColumn(),
        Left(),
    )
    shown = console or Console(stderr=True)
    with bars.Progress(*columns, console=shown, transient=True, get_time=clock) as bar:
        task = bar.add_task("", total=None, name="reading", matrices="", rate=pace.rate)

        def show(now: Progress) -> None:
            pace.note(now.operations, now.operations_total)
            bar.update(
                task,
                completed=now.operations,
                total=now.operations_total,
                name=escape(now.following or "writing"),
                matrices=f"{now.done}/{now.total}",
                rate=pace.rate,
            )

        yield show
