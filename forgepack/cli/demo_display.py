"""How the demo shows itself: a live table on a terminal, one plain line a stage elsewhere, tables at the end."""

from __future__ import annotations

from rich import console as terminal
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from forgepack.cli.common import Console
from forgepack.escaping import escape
from forgepack.miniature.demo import DemoResult
from forgepack.miniature.stages import STAGES

_MARKS = {True: Text("ok", style="green"), False: Text("failed", style="bold red")}


class PlainObserver:
    """One line a stage, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, stage: str) -> None:
        """Say nothing: the stage's end is one line."""

    def note(self, stage: str, text: str) -> None:
        """Print details when verbose."""
        self._console.detail(f"{stage}: {text}")

    def end(self, stage: str, *, ok: bool, seconds: float, summary: str) -> None:
        """Print the stage's line."""
        self._console.say(f"{stage:<9} {'ok' if ok else 'FAILED':<6} {seconds:5.1f} s  {summary}")


class LiveObserver:
    """A table on stderr that fills while the stages run."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[object, str, str]] = {name: ("", "", "") for name, _ in STAGES}
        self._live = Live(self._table(), console=terminal.Console(stderr=True), refresh_per_second=8)
        self._live.start()

    def begin(self, stage: str) -> None:
        """Mark the stage as running."""
        self._show(stage, Spinner("dots"), "", "")

    def note(self, stage: str, text: str) -> None:
        """Show what the stage is doing."""
        self._show(stage, Spinner("dots"), "", escape(text))

    def end(self, stage: str, *, ok: bool, seconds: float, summary: str) -> None:
        """Mark the stage as done."""
        self._show(stage, _MARKS[ok], f"{seconds:.1f} s", escape(summary))

    def close(self) -> None:
        """Leave the table on the screen."""
        self._live.stop()

    def _show(self, stage: str, mark: object, seconds: str, text: str) -> None:
        self._rows[stage] = (mark, seconds, text)
        self._live.update(self._table())

    def _table(self) -> Table:
        table = Table(title="forgepack demo: a trained miniature, end to end", title_justify="left", expand=True)
        table.add_column("stage", no_wrap=True)
        table.add_column("", width=6)
        table.add_column("time", justify="right", width=7)
        table.add_column("", ratio=1)
        for name, (mark, seconds, text) in self._rows.items():
            table.add_row(name, mark, seconds, Text(text))  # type: ignore[arg-type]
        return table


def result_tables(result: DemoResult, console: terminal.Console | None = None) -> None:
    """Print the two tables of the result on stdout: who was refused by what, and what replay measured."""
    console = console or terminal.Console()
    refused = Table(title="sabotaged pairs", title_justify="left")
    for column in ("sabotage", "what was done", "verdict", "rules"):
        refused.add_column(column)
    for row in result.findings.refusals:
        verdict = Text("refused", style="green") if row.refused else Text("NOT REFUSED", style="bold red")
        refused.add_row(row.name, row.story, verdict, " ".join(row.rules))
    console.print(refused)
    measured = Table(
        title="held-out replay (accepted drafts per block; share of blocks drafted alike)", title_justify="left"
    )
    for column in ("variant", "acceptance", "± s.e.", "agreement"):
        measured.add_column(column, justify="left" if column == "variant" else "right")
    for name, variant in result.findings.variants.items():
        taken = variant.acceptance
        measured.add_row(name, f"{taken.mean:.3f}", f"{taken.standard_error:.3f}", f"{variant.agreement:.3f}")
    console.print(measured)
