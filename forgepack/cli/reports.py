"""The files that ``verify --report`` names: checked and cleared before any work, and written when it is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from forgepack.disk.outputs import clear_output
from forgepack.disk.places import Inputs, check_file, refuse_one_place
from forgepack.errors import OutputError, UsageError
from forgepack.render import FORMATS
from forgepack.render.recognize import is_report


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReport:
    """One --report: its form and its file."""

    form: str
    path: Path

    def check(self, *, force: bool, inputs: Inputs) -> None:
        """Raise UsageError where the report may not be written, OutputError where it can't be."""
        if not self.path.parent.is_dir():
            found = "its folder does not exist"
            raise OutputError("the report could not be written", where=str(self.path), found=found)
        ours = partial(is_report, name=self.form)
        check_file(self.path, force=force, inputs=inputs, ours=ours, what="report")


def parse_report(text: str) -> NamedReport:
    """Split FORMAT=FILE; UsageError for an unknown format."""
    name, separator, file = text.partition("=")
    if not separator or name not in FORMATS or not file:
        raise UsageError("--report takes FORMAT=FILE", found=text, hint=f"formats: {', '.join(FORMATS)}")
    return NamedReport(form=name, path=Path(os.path.abspath(file)))  # noqa: PTH100  (links stay as they are named)


def open_reports(texts: Sequence[str], *, force: bool, inputs: Inputs) -> tuple[NamedReport, ...]:
    """Check every --report, then remove the older ones: all of them or none."""
    reports = tuple(parse_report(text) for text in texts)
    refuse_one_place(*(one.path for one in reports))
    for one in reports:
        one.check(force=force, inputs=inputs)
    for one in reports:
        clear_output(one.path)
    return reports
