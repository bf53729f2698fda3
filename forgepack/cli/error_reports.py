"""Reports of runs of ``verify`` that end in an error: the files that its command line names get the verdict "error".

Yesterday's report is removed as soon as the command line can be read, also where the rest of it is wrong, so that a
run that fails never leaves it as if it were its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import click

from forgepack import __version__
from forgepack.cli.next_step import next_step, usage_error
from forgepack.cli.reports import NamedReport, parse_report
from forgepack.cli.verify import verify
from forgepack.disk.outputs import clear_output, write_output
from forgepack.errors import ForgepackError, InternalError, OutputError
from forgepack.profile import DEFAULT_PROFILE, load_profile
from forgepack.render import render_report
from forgepack.verify.findings.report import Depth, Report, failure_of

COMMAND = "verify"
_OPTION = "--report"


@contextmanager
def error_reports(words: Sequence[str]) -> Iterator[None]:
    """Clear the reports that a command line of verify names, and write an error's into them when one is raised.

    The command line is read leniently: the command itself reports what is wrong with it. A report that may not be
    written is left alone here, and refused there.
    """
    reports = _named(words) if COMMAND in words else ()
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as err:
        if reports:
            _tell(reports, err, words)
        raise


def _named(words: Sequence[str]) -> tuple[NamedReport, ...]:
    """Return the reports that may be written, cleared; none for a command line that asks for help."""
    words = words[words.index(COMMAND) + 1 :]
    texts = list(_report_words(words))
    if not texts or {"-h", "--help"} & set(words):
        return ()
    inputs, found = _inputs(words), []
    for text in texts:
        with suppress(ForgepackError):
            one = parse_report(text)
            one.check(force="--force" in words, inputs=inputs)
            clear_output(one.path)
            found.append(one)
    return tuple(found)


def _report_words(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--":
            return
        if word == _OPTION:
            yield following
        elif word.startswith(f"{_OPTION}="):
            yield word.removeprefix(f"{_OPTION}=")


def _inputs(words: Sequence[str]) -> dict[str, Path | None]:
    """Return role -> path of what the command line and the environment name as inputs, as far as they can be read."""
    found: dict[str, Path | None] = {}
    for name, values in _raw_values(words).items():
        for number, value in enumerate(values):
            found[f"{name} {number}"] = Path(value)
    return found


def _raw_values(words: Sequence[str]) -> Mapping[str, list[str]]:
    """Return parameter -> values of every parameter that takes a path; every word where the options can't be read."""
    # The command keeps the help option that it is first asked for, so these are the names that it has elsewhere.
    names = ["-h", "--help"]
    context = click.Context(
        verify, info_name=COMMAND, ignore_unknown_options=True, resilient_parsing=True, help_option_names=names
    )
    context.auto_envvar_prefix = "FORGEPACK_VERIFY"
    try:
        given, rest, _ = verify.make_parser(context).parse_args(list(words))
    except click.ClickException:
        return {"argument": [word.rpartition("=")[2] for word in words]}
    found = {"argument": [str(word) for word in rest]}
    for param in verify.params:
        value = given.get(str(param.name))
        value = param.value_from_envvar(context) if value is None else value
        if isinstance(param.type, click.Path) and value is not None:
            found[str(param.name)] = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
        elif param.name == "profile_name" and str(value).endswith(".json"):
            found["profile"] = [str(value)]
    return found


def _tell(reports: tuple[NamedReport, ...], err: BaseException, words: Sequence[str]) -> None:
    """Write the report of an error into every file; one that can't be written is left cleared."""
    report = error_report(_as_error(err), words)
    for one in reports:
        with suppress(ForgepackError):
            write_output(one.path, render_report(report, one.form))


def _as_error(err: BaseException) -> ForgepackError:
    if isinstance(err, ForgepackError):
        return err
    if isinstance(err, click.Abort | KeyboardInterrupt):
        return InterruptedRunError("interrupted", hint="run the same command again")
    if isinstance(err, click.ClickException):
        return usage_error(err)
    if isinstance(err, OSError):
        return OutputError("the output could not be written", found=err.strerror)
    return InternalError(f"internal error: {type(err).__name__}")


class InterruptedRunError(ForgepackError):
    """The run was interrupted (exit 130)."""

    exit_code = 130


def error_report(err: ForgepackError, words: Sequence[str]) -> Report:
    """Return the report of a run that ended before any rule was evaluated: its verdict is "error"."""
    name = _value(words, "--profile") or DEFAULT_PROFILE
    digest = ""
    with suppress(ForgepackError):
        digest = load_profile(name).digest
    depth = (_value(words, "--depth") or "").upper()
    failure = failure_of(err, err.where or "")
    return Report(
        version=__version__,
        profile=name,
        profile_digest=digest,
        depth=Depth[depth] if depth in Depth.__members__ else Depth.LINEAGE,
        strict="--strict" in words,
        inputs=(),
        checks=(),
        failures=(replace(failure, hint=next_step(err, COMMAND)),),
    )


def _value(words: Sequence[str], option: str) -> str | None:
    """Return the last value of an option as it is written."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == option and following is not None:
            found = following
        elif word.startswith(f"{option}="):
            found = word.removeprefix(f"{option}=")
    return found
