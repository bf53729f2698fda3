"""``forgepack demo``: the whole job on the embedded miniature, with a live display on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forgepack.cli.common import Console, console_of, echo_json, escape, json_option

if TYPE_CHECKING:
    from forgepack.miniature.demo import Observer

_CONTENTS = {
    "checkpoint": "the drafter as a hub would hold it: forgepack fetch --adopt takes it in",
    "target": "the target's release root: model/, coreai/, export/",
    "traces/calib.npz": "recorded sequences that calibrate",
    "traces/heldout.npz": "held-out sequences, for evaluation only",
    "stale": "an older head of the same target: the wrong one",
    "README.md": "what it is, its licences, and what it measures",
}


@click.command("demo")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep what is built in this folder, which must be empty or new; by default it is temporary.",
)
@click.option(
    "--files",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Only copy the miniature's files to a new folder, to try each command on.",
)
@click.option("--threads", type=click.IntRange(1, 64), default=2, show_default=True, metavar="N", help="Workers.")
@json_option
@click.pass_context
def demo(ctx: click.Context, *, work: Path | None, files: Path | None, threads: int, as_json: bool) -> None:
    """Run the whole job on the embedded miniature, then sabotage it.

    fetch (from a hub on loopback), quantize, emit, verify, replay; then copies of the pair are spoiled in ways that
    have happened, and each must be refused by the rule that fits. About a minute, no network.
    """
    if files is not None:
        _copy_files(files, work)
        return
    from forgepack.cli.demo_display import LiveObserver, PlainObserver, result_tables
    from forgepack.miniature.demo import run_demo

    console = console_of(ctx)
    observer: Observer = LiveObserver() if console.live else PlainObserver(console)
    with _folder(work) as folder:
        result = run_demo(folder, observer=observer, clock=time.monotonic, threads=threads)
    if isinstance(observer, LiveObserver):
        observer.close()
    if as_json:
        echo_json(result.as_json())
    elif result.error is None:
        result_tables(result)
    if result.error is not None:
        raise result.error
    _closing(console, work)


def _copy_files(out: Path, work: Path | None) -> None:
    """Copy the miniature to a folder that appears whole or not at all, and say what is in it."""
    from forgepack.disk.folders import copy_folder, locked_work, publish, remove_work
    from forgepack.errors import UsageError
    from forgepack.resources import data_folder

    if work is not None:
        raise UsageError("--files only copies, and --work keeps a demo's run", hint="give one of them")
    source = data_folder("mini")
    with locked_work(out, force=False, inputs={"the miniature": source}) as folder:
        publish(copy_folder(source, folder / "files"), out)
        remove_work(folder)
    click.echo("\n".join(f"{escape(str(out / name))}  {text}" for name, text in _CONTENTS.items()))


def _closing(console: Console, work: Path | None) -> None:
    if work is not None:
        console.say(f"everything that was built is in {work}")


@contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    from forgepack.disk.files import make_folder
    from forgepack.disk.temporary import temporary_folder
    from forgepack.errors import UsageError

    if work is None:
        with temporary_folder() as folder:
            yield folder
        return
    make_folder(work, parents=True)
    if any(work.iterdir()):
        raise UsageError("the work folder is not empty", where=str(work), hint="name an empty or a new folder")
    yield work
