"""Entry point: lazy commands, and the one guard that turns every outcome into its documented exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from forgepack import __version__
from forgepack.cli.common import Console, with_console_options
from forgepack.cli.examples import with_examples
from forgepack.cli.next_step import next_step, usage_error
from forgepack.cli.outcome import drop_stdout, let_console_fail, machine_error, open_standard_streams, use_utf8
from forgepack.cli.variables import with_program_variables, with_variables
from forgepack.closest import did_you_mean
from forgepack.errors import ForgepackError, InternalError, UsageError
from forgepack.escaping import escape

COMMANDS: dict[str, tuple[str, str]] = {
    "fetch": ("fetch", "Download the checkpoint at a pinned commit."),
    "quantize": ("quantize", "Quantize a checkpoint: LUT4 GPTQ, INT8 kernel projections."),
    "emit": ("emit", "Emit the Core AI package and its sidecar."),
    "verify": ("verify", "Verify that a package and a target belong together, or a whole release."),
    "bundle": ("bundle", "Stage a release from a target and a drafter."),
    "build": ("build", "Make a release from one recipe, skipping what is up to date."),
    "replay": ("replay", "Measure acceptance and agreement on recorded traces."),
    "gate": ("gate", "Check a replay's report against a release rule."),
    "attest": ("attest", "Attest a package for a second target, by evidence."),
    "diff": ("diff", "Show how two packages, checkpoints or other artifacts differ."),
    "inspect": ("inspect", "Identify a file or folder: its kind, digests and faults."),
    "demo": ("demo", "Run the whole job on the embedded miniature, and sabotage it."),
    "explain": ("explain", "Explain a rule of the verifier."),
    "rules": ("rules", "List the verifier's rules."),
    "schema": ("schema", "Print a JSON Schema by name."),
    "doctor": ("doctor", "Say what this machine lacks, if anything."),
    "completion": ("completion", "Print a shell's completion script."),
}

COMPLETION = "_FORGEPACK_COMPLETE"
EXIT_CODES = {
    0: "the command did its work; all required checks ran and passed",
    1: "the contract is refused: a fault in the content of what is verified",
    2: "usage or configuration",
    3: "nothing to verify: the folder holds no package",
    4: "an input can't be read, is over a limit, corrupt or of the wrong identity",
    5: "output could not be written",
    6: "hub or network",
    7: "Core AI or Core ML missing on this platform, or its toolchain failed",
    70: "internal error",
    130: "interrupted",
}
EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {text}" for code, text in EXIT_CODES.items())
START = """\b
Start here:
  forgepack demo             the whole job on a trained miniature, in a minute
  forgepack doctor           what this machine lacks, if anything
  forgepack COMMAND --help   what a command takes, with examples
"""


class LazyGroup(click.Group):
    """Commands whose modules are imported when they are called, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"forgepack.cli.{module}"), module)
        assert isinstance(command, click.Command)
        return with_examples(with_variables(with_console_options(command), cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the closest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            hint = did_you_mean(name, COMMANDS, otherwise="forgepack --help lists the commands")
            raise UsageError("no such command", found=name, hint=hint)
        if name in COMMANDS and not HELP & set(args) and not ctx.resilient_parsing:
            quiet = bool(ctx.params.get("quiet") or QUIET & set(args))  # also after the name: it is not read yet
            self._configure(ctx, name, Console(quiet=quiet, verbose=bool(ctx.params.get("verbose"))))
        return super().resolve_command(ctx, args)

    def _configure(self, ctx: click.Context, name: str, console: Console) -> None:
        """Take the defaults of options from the configuration file, and report variables that nothing reads."""
        from forgepack.cli.config import load_config, refuse_weaker
        from forgepack.cli.settable import reads_file
        from forgepack.cli.variables import refuse_variables, source_date, unknown_variables

        def find(command: str) -> click.Command | None:
            return self.get_command(ctx, command)

        source_date()
        if not reads_file(name):
            return
        involved = STEPS.get(name, (name,))
        refuse_variables(involved, find)
        for variable, close in unknown_variables(COMMANDS, find):
            console.say(f"note: no option reads {variable}" + (f": did you mean {close}?" if close else ""))
        if not ctx.params.get("isolated"):
            config = load_config(ctx.params.get("config"), COMMANDS, find)
            refuse_weaker(config, involved, find)
            ctx.default_map = {command: dict(values) for command, values in config.defaults.items()}
            ctx.meta["forgepack.config"] = config.path
            ctx.meta["forgepack.keys"] = config.keys
            if config.path is not None:
                console.detail(f"defaults from {config.path}")


# Commands that take the options of others.
STEPS = {"build": ("build", "fetch", "quantize", "verify", "bundle")}
HELP = {"-h", "--help"}
QUIET = {"-q", "--quiet"}


@click.group(
    cls=LazyGroup,
    epilog=f"{START}\n{EPILOG}",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="forgepack")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on stderr.")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration in place of ./forgepack.toml or [tool.forgepack] of ./pyproject.toml.",
)
@click.option("--isolated", is_flag=True, help="Read no configuration file.")
@click.pass_context
def forgepack(ctx: click.Context, *, quiet: bool, verbose: bool, config: Path | None, isolated: bool) -> None:
    """Package and verify a speculative-decoding release for Apple silicon.

    fetch -> quantize -> emit -> verify -> bundle: each step writes files with digests, and no step trusts the one
    before. `forgepack build` runs them all from one recipe, forgepack.toml.

    Options come from the command line, then from FORGEPACK_* variables (FORGEPACK_VERIFY_DEPTH), then from the
    configuration file, then from their defaults. What weakens a check or writes comes from the command line alone.
    """
    if config is not None and isolated:
        raise UsageError(
            "--isolated reads no configuration", found=f"--config {config}", hint="leave one of them out"
        )
    ctx.obj = Console(quiet=quiet, verbose=verbose)


with_program_variables(forgepack)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors go to stderr in one form, each with what to do next."""
    open_standard_streams()
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["help"]:  # as people type it
        words = [*words[1:2], "--help"]
    command = next((word for word in words if word in COMMANDS), None)
    try:
        with _reported(words, command):
            return _invoke(words)
    except ForgepackError as err:
        return _told(err, command)
    except click.exceptions.Exit as err:
        return err.exit_code
    except click.exceptions.NoArgsIsHelpError as err:  # the command alone: its help, but nothing was done
        click.echo(err.format_message(), err=True)
        return UsageError.exit_code
    except click.ClickException as err:
        return _told(usage_error(err), command)
    except (click.Abort, KeyboardInterrupt):
        click.echo("forgepack: interrupted", err=True)
        return 130
    except BaseException as err:
        if isinstance(err, SystemExit | GeneratorExit):
            raise
        return _ended_otherwise(err, command)


def _ended_otherwise(err: BaseException, command: str | None) -> int:
    """Return the code of what is not an error of this tool's own: the machine's, or else an internal one."""
    known = machine_error(err)
    if known is None:
        return _internal(err)
    if known.code == "stdout":
        drop_stdout()
        if isinstance(err, BrokenPipeError):  # its reader has what it wanted: no word, as other tools do
            return known.exit_code
    return _told(known, command)


def _reported(words: list[str], command: str | None) -> AbstractContextManager[None]:
    """Return what writes the reports that verify's --report names however the run ends."""
    if command != "verify" or not any(word.startswith("--report") for word in words):
        return nullcontext()
    from forgepack.cli.error_reports import error_reports

    return error_reports(words)


def _invoke(args: list[str]) -> int:
    """Run the command as click's own main does, without its ways of ending (exit 1 for a closed pipe)."""
    if COMPLETION in os.environ and not args:  # a shell asks with no words; with any, a command is to be run
        forgepack.main(args, prog_name="forgepack")
    with forgepack.make_context("forgepack", args) as ctx:
        result = forgepack.invoke(ctx)
        sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _told(err: ForgepackError, command: str | None) -> int:
    err.hint = next_step(err, command)
    Console().error(err)
    return err.exit_code


def _internal(err: BaseException) -> int:
    import traceback

    click.echo(f"forgepack: internal error: {escape(f'{type(err).__name__}: {err}')}", err=True)
    click.echo(escape("".join(traceback.format_tb(err.__traceback__)[-3:])), err=True)
    click.echo("  next: report this with the command line and the text above", err=True)
    return InternalError.exit_code


def entry() -> None:
    """Console script."""
    use_utf8()
    let_console_fail()
    sys.exit(run())
