"""The inputs of emission under verification's own rules, before any of them is read whole or anything is written.

Whatever verification says of a target, a checkpoint and a quantization by their headers, emission says first: by the
same rules, under the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.target import TargetPaths, read_target
from forgepack.coreai_backend.asset_writer import FIXED_DATE
from forgepack.disk.places import interrupted
from forgepack.emit.inputs import EmitInputs
from forgepack.emit.package import EmitResult, Progress, emit_package
from forgepack.errors import IdentityError, UsageError
from forgepack.profile import Profile
from forgepack.verify.engine import verify
from forgepack.verify.findings.causes import cause_lines, failure_lines
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.input_set import never
from forgepack.verify.inputs.reading import Input
from forgepack.verify.inputs.sources import Sources, absolute
from forgepack.verify.open_pair import OpenPair

# The rule that compares the quantization's profile with the one in use.
_PROFILE = "SRC012"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPaths:
    """Where emission's inputs are; ``root`` is the target's release root, None where its parts were named apart.

    ``allow_links`` accepts symbolic links that resolve to regular files, as in a hub cache.
    """

    quant: Path
    checkpoint: Path
    target: TargetPaths
    root: Path | None = None
    allow_links: bool = False


class RefusedInputsError(IdentityError):
    """Rules of verification refuse the inputs (exit 4); its lines list each rule's findings as a report does."""

    def __init__(self, report: Report) -> None:
        report = _of_profile(report)
        refusing = [check.id for check in report.checks if report.refuses(check) and check.cause is None]
        what = f"the inputs are refused by {', '.join(refusing)}" if refusing else "the inputs can't be checked"
        super().__init__(what, code="emit-inputs")
        self.report = report

    def lines(self) -> list[str]:
        """Return what was refused, why, and how to mend it, root causes first."""
        return [self.what, *(line for line in _told(self.report) if line)]


def open_inputs(paths: InputPaths, out: Path, profile: Profile) -> tuple[EmitInputs, Report]:
    """Check the inputs by their headers, then read them; the report holds warnings and notes, which do not refuse.

    ``out`` is the package's folder, which need not exist. What takes all bytes is left to emission itself. Raises
    RefusedInputsError for what a rule refuses, and the readers' errors.
    """
    sources = Sources(
        drafter=absolute(out),
        target=TargetPaths(
            model=absolute(paths.target.model),
            build=absolute(paths.target.build),
            export=absolute(paths.target.export),
        ),
        root=absolute(paths.root),
        quant=absolute(paths.quant),
        checkpoint=absolute(paths.checkpoint),
        traces=None,
        named={},
        allow_links=paths.allow_links,
        plain=True,
    )
    _demand_folders(paths)
    pair = OpenPair(sources, profile, Depth.HASH)
    pair.digests = Input("digests", never, depth=Depth.HASH, absent="emission takes the digests itself")
    report = verify(pair)
    if report.exit_code:
        raise RefusedInputsError(report)
    inputs = EmitInputs(
        quant=read_quant(paths.quant, profile.geometry, content=False),
        checkpoint=read_checkpoint(paths.checkpoint, profile),
        target=read_target(paths.target),
    )
    return inputs, report


def _demand_folders(paths: InputPaths) -> None:
    """Raise UsageError for an input that is not there, with what makes one."""
    for path, name, hint in (
        (paths.quant, "QUANT", "forgepack quantize writes one"),
        (paths.checkpoint, "checkpoint", "forgepack fetch --out DIR downloads one"),
    ):
        if not path.is_dir():
            raise interrupted(path) or UsageError(f"no such {name} folder", where=str(path), hint=hint)


def emit_paths(
    paths: InputPaths,
    out: Path,
    *,
    profile: Profile,
    force: bool = False,
    created: int = FIXED_DATE,
    report: Callable[[Progress], None] | None = None,
) -> EmitResult:
    """Check and read the inputs, and emit the package into ``out``; all warnings are in the result.

    ``created`` is the package's only date, in seconds since 1970. Raises what ``open_inputs`` and ``emit_package``
    raise.
    """
    inputs, judged = open_inputs(paths, out, profile)
    result = emit_package(inputs, out, profile=profile, force=force, created=created, report=report)
    warnings = (line.removeprefix("warning: ") for line in warnings_of(judged))
    return replace(result, warnings=(*warnings, *result.warnings))


def warnings_of(report: Report) -> Iterator[str]:
    """Yield each warning that does not refuse as one line: its rule, what it demands, what was found and where."""
    for check in report.failed("warning"):
        for finding in check.held(None):
            yield f"warning: {check.id} {check.violation}: {finding.place}: {finding.message or finding.found}"


def _of_profile(report: Report) -> Report:
    """Return the report, but of another profile's quantization that rule alone: all else follows from it."""
    profile = next(check for check in report.checks if check.id == _PROFILE)
    if not any(finding.where.endswith("profile.name") for finding in profile.findings):
        return report
    return replace(report, checks=(replace(profile, cause=None),))


def _told(report: Report) -> Iterator[str]:
    for failure in report.failures:
        yield from failure_lines(failure)
    yield from cause_lines(report, waivers=False, severities=("error", "warning"))
    if not report.failures:
        yield from (
            f"not evaluated, though required: {check.reason}: {check.id}"
            for check in report.checks
            if report.refuses(check) and check.status == "not-evaluated" and check.cause is None
        )
