"""Run the demo and draw what it shows as docs/demo.svg: the README's picture is a recording, not a drawing."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from forgepack.cli.demo_display import LiveObserver, result_tables
from forgepack.miniature.demo import run_demo


def main() -> None:
    """Record one run."""
    console = Console(record=True, width=110, force_terminal=True)
    observer = LiveObserver()
    with tempfile.TemporaryDirectory(prefix="forgepack-demo-") as work:
        result = run_demo(Path(work), observer=observer, clock=time.monotonic)
    observer.close()
    stages = Table(title="forgepack demo: a trained miniature, end to end", title_justify="left", expand=True)
    for column in ("stage", "", "time", ""):
        stages.add_column(column)
    for stage in result.stages:
        stages.add_row(stage.name, "ok" if stage.ok else "failed", f"{stage.seconds:.1f} s", stage.summary)
    console.print(stages)
    result_tables(result, console)
    svg = console.export_svg(title="forgepack demo", unique_id="demo")
    Path(__file__).with_name("demo.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
