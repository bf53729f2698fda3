"""What every command shares: options, messages on stderr, JSON on stdout."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forgepack.canonical import dump_shown
from forgepack.errors import ForgepackError
from forgepack.escaping import escape, escape_line
from forgepack.profile import DEFAULT_PROFILE, profile_names

if TYPE_CHECKING:
    from forgepack.verify.findings.report import Report

__all__ = [
    "Console",
    "NumberRange",
    "console_of",
    "echo_json",
    "echo_text",
    "escape",
    "force_option",
    "json_option",
    "offer",
    "profile_option",
    "target_options",
    "verdict_json",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Console:
    """Messages for people, on stderr; ``quiet`` drops all but errors."""

    quiet: bool = False
    verbose: bool = False

    def say(self, text: str) -> None:
        """Print one line unless quiet."""
        if not self.quiet:
            click.echo(escape(text), err=True)

    def detail(self, text: str) -> None:
        """Print one line when verbose."""
        if self.verbose and not self.quiet:
            click.echo(escape(text), err=True)

    def error(self, err: ForgepackError) -> None:
        """Print an error: its sentence, then each field on its own line."""
        first, *rest = err.lines()
        click.echo(f"forgepack: error: {escape_line(first)}", err=True)
        for line in rest:
            click.echo(escape_line(line), err=True)

    @property
    def live(self) -> bool:
        """Whether a live display may be drawn: stderr is a terminal and not quiet."""
        return sys.stderr.isatty() and not self.quiet


class NumberRange(click.FloatRange):
    """A number within bounds; what is not a number is within none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for NaN, which no comparison refuses."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


def console_of(ctx: click.Context) -> Console:
    """Return the Console of the running command line."""
    root = ctx.find_root()
    return root.obj if isinstance(root.obj, Console) else Console()


def with_console_options(command: click.Command) -> click.Command:
    """Let -q and -v also stand after the command's name, where people write them."""

    def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and param.name is not None:
            setattr(console_of(ctx), param.name, True)

    if not any(param.name == "quiet" for param in command.params):
        for flags, text in (
            (("-q", "--quiet"), "Say nothing but errors on stderr."),
            (("-v", "--verbose"), "Say more."),
        ):
            command.params.append(click.Option(flags, is_flag=True, expose_value=False, callback=note, help=text))
    return command


def verdict_json(report: Report) -> dict[str, Any]:
    """Return how a verification ended that a command ran before it wrote: warnings stay visible by their ids."""
    warnings = [check.id for check in report.failed("warning")]
    return {"verdict": report.verdict, "depth": report.depth.label, "warnings": warnings}


def echo_json(value: Any) -> None:
    """Write canonical JSON to stdout."""
    sys.stdout.buffer.write(dump_shown(value))
    sys.stdout.buffer.flush()


def echo_text(text: str) -> None:
    """Write text to stdout as it is, without a terminal's colours in mind."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def offer(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return a completion that offers the names that begin with what is typed, else files."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name) for name in names() if name.lower().startswith(incomplete.lower())]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def profile_option(command: F) -> F:
    """Add --profile: a shipped profile's name or a path that ends in .json."""
    return click.option(
        "--profile",
        "profile_name",
        default=DEFAULT_PROFILE,
        show_default=True,
        metavar="NAME",
        shell_complete=offer(profile_names),
        help="Profile to check by: a shipped name or a path ending in .json.",
    )(command)


def json_option(command: F) -> F:
    """Add --json: the result as JSON on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")(command)


def force_option(help: str = "Replace an output that forgepack made.") -> Callable[[F], F]:  # noqa: A002
    """Add --force: replace an output that is there."""
    return click.option("--force", is_flag=True, help=help)


def target_options(command: F) -> F:
    """Add --target-model, --target-build and --target-export: parts that are outside the release root."""
    for part in ("export", "build", "model"):
        command = click.option(
            f"--target-{part}",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help=f"The target's {part} folder when it is outside the release root.",
        )(command)
    return command
