"""A report as plain text for people: root causes first, what follows from each below it, then what was not seen.

The text is the same on a terminal and in a pipe; colour is the command line's to add.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.escaping import escape_line
from forgepack.render.accepted import accepted_lines, baseline_lines, origin_text, partial_text
from forgepack.verify.checks.target_record import NO_ATTESTATION, NO_EVIDENCE
from forgepack.verify.findings.causes import SHOWN, cause_lines, failure_lines
from forgepack.verify.findings.report import AT_HAND, Check, Report, Status

_LONG_RUN = 3
# Most pairs have neither, and need neither: shown with -v only.
_UNASKED = {NO_ATTESTATION, NO_EVIDENCE}


def render(report: Report, *, verbose: bool = False) -> str:
    """Return the report as lines; ``verbose`` also lists every check that passed or was not evaluated."""
    lines = [
        *_head(report, verbose=verbose),
        *_failures(report),
        *cause_lines(report, verbose=verbose),
        *_accepted(report),
    ]
    lines += _unknown(report, verbose=verbose)
    if verbose:
        lines += [f"pass    {check.id}  {check.title}" for check in report.checks if check.status == "pass"]
        lines.append(f"forgepack {report.version}, rule set {report.rule_set}")
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _head(report: Report, *, verbose: bool) -> Iterator[str]:
    partial = f", {partial_text(report)}" if report.not_selected else ""
    yield f"{report.verdict.upper()}{partial}  profile {escape_line(report.profile)}, depth {report.depth.label}"
    for one in report.inputs:
        yield f"  {one.role}: {escape_line(one.path)}"
    yield from (f"  {line}" for line in _terms(report))
    yield from (f"  {origin_text(one)}" for one in report.options if verbose or one.source not in AT_HAND)
    yield ""


def _terms(report: Report) -> Iterator[str]:
    """Say what was left out, and which rules can't be."""
    narrowed = report.narrowed
    if narrowed is not None:
        named = {"selected": narrowed.select, "ignored": narrowed.ignore}
        yield "; ".join(f"{word}: {', '.join(prefixes)}" for word, prefixes in named.items() if prefixes)
    if narrowed is not None and narrowed.kept:
        shown = ", ".join(narrowed.kept[:SHOWN])
        more = f" and {len(narrowed.kept) - SHOWN} more" if len(narrowed.kept) > SHOWN else ""
        yield f"never ignored: {shown}{more}"


def _failures(report: Report) -> Iterator[str]:
    for failure in report.failures:
        yield from failure_lines(failure)
        yield ""


def _accepted(report: Report) -> Iterator[str]:
    """List what is waived or known: accepted, but never hidden; then what is gone since the baseline."""
    told = False
    for check in report.checks:
        lines = list(accepted_lines(check))
        if lines:
            told = True
            yield f"{check.id} {check.severity}, {_states(check)}: {check.violation}"
            yield from (f"  - {line}" for line in lines[:SHOWN])
            if len(lines) > SHOWN:
                yield f"  … and {check.waived + check.known - SHOWN} more of this kind"
    lines = list(baseline_lines(report))
    yield from lines
    if told or lines:
        yield ""


def _states(check: Check) -> str:
    counts = {"waived": check.waived, "known": check.known}
    return " and ".join(f"{count} {state}" for state, count in counts.items() if count)


def _unknown(report: Report, *, verbose: bool) -> Iterator[str]:
    """List the checks that were not evaluated for a reason of their own, reasons grouped."""
    failed = {check.id for check in report.checks if check.status == "fail"}
    reasons: dict[tuple[bool, str], list[str]] = {}
    for check in report.checks:
        if check.status != "not-evaluated" or check.cause in failed or not check.selected:
            continue
        if verbose or check.required or (check.depth <= report.depth and check.reason not in _UNASKED):
            reasons.setdefault((check.required, check.reason), []).append(check.id)
    for (required, reason), ids in sorted(reasons.items(), key=lambda item: (not item[0][0], item[0][1])):
        kind = "not evaluated, though required" if required else "not evaluated"
        yield f"{kind}: {escape_line(reason)}: {', '.join(_runs(report, ids))}"
    if reasons:
        yield ""


def _runs(report: Report, ids: list[str]) -> Iterator[str]:
    """Yield ids, those of an area that follow each other as one run: CTR040 to CTR056."""
    order = {check.id: number for number, check in enumerate(report.checks)}
    run: list[str] = []
    for ident in [*ids, ""]:
        if run and (not ident or order[ident] != order[run[-1]] + 1 or ident[:3] != run[-1][:3]):
            yield from [f"{run[0]} to {run[-1]}"] if len(run) > _LONG_RUN else run
            run = []
        run.append(ident)


def _summary(report: Report) -> str:
    deeper = sum(check.selected and check.depth > report.depth for check in report.checks)
    unknown = report.count("not-evaluated") - deeper - report.not_selected
    parts = [f"{report.count('pass')} passed"]
    parts += [f"{len(report.failed(s))} {name}" for s, name in _COUNTED if report.failed(s)]  # type: ignore[arg-type]
    parts += [f"{unknown} not evaluated"] if unknown else []
    parts += [f"{report.count(state)} {state}" for state in _ACCEPTED if report.count(state)]
    parts += [f"{deeper} need a greater depth"] if deeper else []
    parts += [partial_text(report)] if report.not_selected else []
    text = f"{report.verdict}: {len(report.checks)} checks, {', '.join(parts)}"
    if report.exit_zero and report.verdict == "fail":
        text += f"; exit code {report.exit_code} with --exit-zero"
    return text


_ACCEPTED: tuple[Status, ...] = ("waived", "known")
_COUNTED = (("error", "failed"), ("warning", "with warnings"), ("note", "with notes"))
