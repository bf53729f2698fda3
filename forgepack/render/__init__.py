"""A report shown as text, JSON, SARIF, JUnit or workflow commands; nothing is checked here.

May import: artifacts, verify, release.inspect, release.diff, release.replay, release.replay.gate.
"""

from __future__ import annotations

from forgepack.verify.findings.report import Report

FORMATS = ("text", "json", "sarif", "junit", "github")


def render_report(report: Report, name: str, *, verbose: bool = False) -> bytes:
    """Return the report in one of ``FORMATS`` as bytes; equal reports give equal bytes."""
    from forgepack.render import github, json_report, junit, sarif, text

    if name == "text":
        return text.render(report, verbose=verbose).encode("utf-8")
    render = {"json": json_report.render, "sarif": sarif.render, "junit": junit.render, "github": github.render}[name]
    return render(report)
