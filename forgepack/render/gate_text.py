"""A gate's result as lines."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.release.replay.gate.checks import GateCheck
from forgepack.release.replay.gate.judge import GateResult

_ORDER = {"fail": 0, "reported": 1, "pass": 2}


def gate_lines(result: GateResult) -> list[str]:
    """Return what was compared, what failed first, and the verdict last."""
    checks = sorted(result.checks, key=lambda check: _ORDER[check.status])
    lines = [line for check in checks for line in _lines(check)]
    name = result.inputs.policy.name or result.inputs.policy.path.name
    counts = {word: sum(check.status == word for check in result.checks) for word in ("pass", "fail", "reported")}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return [*lines, f"{result.verdict.upper()}  {escape_line(name)}: {told}"]


def _lines(check: GateCheck) -> Iterator[str]:
    head = f"{check.status:<8}  {check.id:<14}  {escape_line(check.what)}"
    if check.status == "pass":
        demand = "" if check.expected == check.found else f" ({escape_line(check.expected)})"
        yield f"{head}: {escape_line(check.found)}{demand}"
        return
    yield head
    if check.where:
        yield f"          where: {escape_line(check.where)}"
    yield f"          expected: {escape_line(check.expected)}"
    yield f"          found: {escape_line(check.found)}"
