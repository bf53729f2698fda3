"""What a file or folder is, how two differ, and a verification's report in a form for people or machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forgepack.calls.values import StrPath, optional
from forgepack.profile import load_profile

if TYPE_CHECKING:
    from forgepack.release.diff.compare import Diff
    from forgepack.release.inspect.inspection import Inspection
    from forgepack.verify.findings.report import Report


def diff(left: StrPath, right: StrPath, *, target: StrPath | None = None, profile: str | None = None) -> Diff:
    """Compare two packages, quantized drafters, checkpoints, targets, releases, or files of any kind.

    Each difference names its file, its place in it, both sides, and by how much arrays differ. At most 10,000 are
    kept; ``cut`` says that there are more. Of two drafter packages that differ, ``rules`` are those by which
    ``verify`` fails the right one, given what the left one's sidecar binds, or its own: without a ``target`` those
    that need none. The profile is by default the shipped one that the left one names.

    Raises UsageError for a path that does not exist, UnreadableError for one that can't be read.

    >>> found = api.diff("mini/target", "wrong")
    >>> {one.file for one in found.differences}
    {'export/mini_lut4/lm_head.safetensors'}
    >>> found.kinds, found.rules
    (('target', 'target'), None)
    """
    from forgepack.release.diff.compare import diff_paths

    judging = None if profile is None else load_profile(profile)
    return diff_paths(Path(left), Path(right), profile=judging, target=optional(target))


def inspect(path: StrPath, *, deep: bool = False, profile: str | None = None) -> Inspection:
    """Return what a file or folder is, of this tool or not: kind, title, digests, facts, and what is wrong with it.

    Files over 1 GiB are hashed, and programs of assets are read, with ``deep`` alone. ``profile`` is one to know
    beside those that ship.

    Raises UsageError for a path that does not exist, UnreadableError and LimitError for what can't be looked at.

    >>> found = api.inspect("drafter")
    >>> found.kind, found.facts["profile"], found.faults
    ('drafter-package', 'mini', ())
    """
    from forgepack.release.inspect.inspection import inspect_path

    return inspect_path(Path(path), deep=deep, more=None if profile is None else load_profile(profile))


def render(
    report: Report, form: Literal["text", "json", "sarif", "junit", "github"] = "text", *, verbose: bool = False
) -> bytes:
    """Return a verification's report as text, JSON, SARIF 2.1.0, JUnit or GitHub's workflow commands, in UTF-8.

    Equal reports give equal bytes. ``verbose`` adds to the text what passed and what was chosen.

    Raises UsageError for another form.

    >>> report = api.verify("drafter", target="wrong", depth="header", profile="mini")
    >>> json.loads(api.render(report, "json"))["depth"]
    'header'
    """
    from forgepack.errors import UsageError
    from forgepack.render import FORMATS, render_report

    if form not in FORMATS:
        raise UsageError("no such form of a report", expected=" or ".join(FORMATS), found=str(form))
    return render_report(report, form, verbose=verbose)
