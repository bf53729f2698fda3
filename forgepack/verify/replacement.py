"""What the rules say of one drafter package in the place of another: the question behind a comparison of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.target import TargetPaths, locate_target
from forgepack.artifacts.tree import walk
from forgepack.profile import Profile
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Check, Depth
from forgepack.verify.inputs.layout import find_layout
from forgepack.verify.inputs.readers import read_sidecar
from forgepack.verify.inputs.reading import Input
from forgepack.verify.inputs.sources import Sources, absolute
from forgepack.verify.open_pair import OpenPair

NO_TARGET = "no --target was given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A rule that fails, and the files below the package where it found something; "" is the package itself."""

    rule: str
    files: frozenset[str]


def refusals(left: Path, right: Path, profile: Profile, target: Path | None) -> tuple[Refusal, ...]:
    """Return the rules that fail for the package ``right`` by the sidecar of ``left`` or by its own, by id.

    Errors and warnings count, at depth lineage. Without a target, only rules count that need none. Raises UsageError
    for a target that is not there.
    """
    found: dict[str, set[str]] = {}
    for binding in (left, right):
        for check in _failed(_pair(binding, right, profile, target)):
            found.setdefault(check.id, set()).update(_file(finding.where) for finding in check.held(None))
    return tuple(Refusal(rule=rule, files=frozenset(files)) for rule, files in sorted(found.items()))


def _pair(binding: Path, drafter: Path, profile: Profile, target: Path | None) -> OpenPair:
    """Return the pair of a package and a target, bound by the sidecar of the package ``binding``."""
    nowhere = absolute(drafter) / "no target"
    paths = (
        TargetPaths(model=nowhere, build=nowhere, export=None) if target is None else locate_target(absolute(target))
    )
    sources = Sources(
        drafter=absolute(drafter),
        target=paths,
        root=absolute(target),
        quant=None,
        checkpoint=None,
        traces=None,
        named={"drafter": drafter.as_posix()},
    )
    pair = OpenPair(sources, profile, Depth.LINEAGE)
    if binding != drafter:
        sidecar = find_layout(absolute(binding), walk(binding), profile.package).sidecar
        pair.written_sidecar = Input("written_sidecar", lambda: read_sidecar(sidecar))
    if target is None:
        pair.leave_out_target(NO_TARGET)
    return pair


def _failed(pair: OpenPair) -> Iterator[Check]:
    return (check for check in verify(pair).checks if check.status == "fail" and check.severity != "note")


def _file(where: str) -> str:
    """Return the file below the package that a finding's place names; "" for the package or another part."""
    role, _, path = where.partition(": ")[0].partition("/")
    return path if role == "drafter" else ""
