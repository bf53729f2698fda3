"""A report shown as text, JSON, SARIF, JUnit or workflow commands; nothing is judged here."""

from __future__ import annotations

from forgepack.verify.report import Report

FORMATS = ("text", "json")


def render_report(report: Report, name: str, *, verbose: bool = False) -> bytes:
    """Return the report in one of ``FORMATS`` as bytes; equal reports give equal bytes."""
    if name == "json":
        from forgepack.render import json_report

        return json_report.render(report)
    from forgepack.render import text

    return text.render(report, verbose=verbose).encode("utf-8")
