"""Verdict and exit code follow from checks and failures alone, whatever the output format."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from forgepack.verify.findings.report import strongest
from tests.render.reports import make_report


def test_exit_codes_have_one_precedence() -> None:
    """Of several codes the documented one wins."""
    order = [130, 70, 5, 7, 6, 4, 3, 1, 0]
    for stronger, weaker in pairwise(order):
        assert stronger == strongest([weaker, stronger])
    assert 0 == strongest([])


def test_unknown_is_not_pass() -> None:
    """A required check that was not evaluated fails the verdict on its own."""
    report = make_report("x", failures=False)
    unknown = replace(report, checks=tuple(c for c in report.checks if c.id == "HEAD001"))
    optional = replace(report, checks=tuple(c for c in report.checks if c.id in ("LIC004", "VOC001")))
    assert ("fail", 1) == (unknown.verdict, unknown.exit_code)
    assert ("pass", 0) == (optional.verdict, optional.exit_code)


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 1)])
def test_strict_lets_warnings_refuse(strict: bool, code: int) -> None:
    """A warning refuses only when the run is strict; a note never does."""
    report = make_report("x", strict=strict, failures=False)
    mild = replace(report, checks=tuple(c for c in report.checks if c.id in ("TAP012", "PATH006")))
    assert code == mild.exit_code
