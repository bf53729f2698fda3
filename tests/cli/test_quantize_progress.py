"""The progress of quantize: matrix, rate and time left, by an injected clock."""

from __future__ import annotations

import io

import pytest
from rich import console as terminal

from forgepack.cli.common import Console
from forgepack.cli.quantize_progress import Pace, listening, live_bar
from forgepack.quantize.progress import Progress


class Clock:
    """A clock in seconds that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def event(done: int, operations: float, *, following: str = "layers.0.mlp.up_proj.weight") -> Progress:
    return Progress(
        name="layers.0.mlp.gate_proj.weight",
        done=done,
        total=46,
        resumed=False,
        following=following,
        operations=operations,
        operations_total=1e12,
    )


def test_the_pace_is_counted_operations_over_time() -> None:
    """After 50 s a quarter of 1e12 operations: 5 Gflop/s and 150 s left, which run down between two notes."""
    clock = Clock()
    pace = Pace(clock)
    assert ("- Gflop/s", "-:--:-- left") == (pace.rate, pace.left)
    clock.now += 50
    pace.note(2.5e11, 1e12)
    assert ("5.0 Gflop/s", "0:02:30 left") == (pace.rate, pace.left)
    clock.now += 30
    assert ("5.0 Gflop/s", "0:02:00 left") == (pace.rate, pace.left)
    clock.now += 3600
    assert "0:00:00 left" == pace.left
    pace.note(2.6e11, 5e13)
    assert "195:" == pace.left[:4]


UP = "layers.0.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        (UP, [UP, "10/46", "5.0 Gflop/s", "0:00:50", "0:02:30 left"]),
        ("x\x1b[2J[red]", ["x\\x1b[2J[red]"]),
        ("", ["writing", "10/46"]),
    ],
)
def test_the_bar_shows_matrix_count_rate_and_times(following: str, expected: list[str]) -> None:
    """What is at work now, how many are finished, the rate, time gone and time left; hostile names are escaped."""
    clock, out = Clock(), io.StringIO()
    console = terminal.Console(file=out, force_terminal=True, width=140, color_system=None)
    with live_bar(Pace(clock), clock=clock, console=console) as show:
        clock.now += 50
        show(event(10, 2.5e11, following=following))
    frame = out.getvalue()
    assert [] == [part for part in ["reading", "-:--:-- left", *expected] if part not in frame], frame


def test_lines_of_a_verbose_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing can be drawn, -v prints one line a matrix with the same figures."""
    clock = Clock()
    with listening(Console(verbose=True), clock=clock) as listen:
        clock.now += 50
        listen(event(10, 2.5e11))
    lines = capsys.readouterr().err.splitlines()
    assert [
        "quantize: calibrating and rounding, layer by layer",
        "quantize: 10/46 layers.0.mlp.gate_proj.weight, 5.0 Gflop/s, 0:02:30 left",
    ] == lines
