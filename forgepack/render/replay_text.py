"""A replay's report as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from string import ascii_uppercase
from typing import Any

from forgepack.escaping import escape_line
from forgepack.release.replay.reading import calibration_text

Json = Mapping[str, Any]


def replay_lines(report: Json, *, sequences: bool = False) -> list[str]:
    """Return a replay's report as lines: each drafter under a letter; with ``sequences`` also every sequence."""
    drafters = report["drafters"]
    parts = [_head(report), _drafters(report), _shares(drafters), _histogram(drafters), _positions(report)]
    return list(chain(*parts, _sequences(drafters) if sequences else ()))


def letter(place: int) -> str:
    """Return the name that a drafter has in tables and pictures: A for the first, the reference."""
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"#{place + 1}"


def interval_text(estimate: Json, digits: int = 2) -> str:
    """Return an estimate's interval as text; empty where it has none."""
    if "interval" not in estimate:
        return ""
    low, high = estimate["interval"]
    return f" [{low:.{digits}f}, {high:.{digits}f}]"


def _head(report: Json) -> Iterator[str]:
    traces, target = report["traces"], report["target"]
    name = escape_line(report["workload"]) if "workload" in report else "an unnamed workload"
    yield f"{name}: {traces['sequences']} sequences, traces {traces['sha256'][:12]}"
    yield f"target {escape_line(target['export'])}, head {target['head_sha256'][:12]}"
    left = report.get("left_out", {})
    if any(left.values()):
        beyond = left["rows_beyond_tokens"]
        yield f"left out: {left['cycles']} recorded cycles, {beyond} feature rows beyond the tokens"
    level = round(100 * report["statistics"]["confidence"])
    yield f"in brackets: {level}% intervals, a bootstrap over sequences"
    yield ""


def _doubts(one: Json, report: Json) -> Iterator[str]:
    """Yield what takes weight from an acceptance: sequences that calibrated, and features of another target."""
    calibration, recorded = one["calibration"], one["recorded"]
    if calibration["state"] != "none":
        yield f"   {calibration_text(calibration, report['traces']['sequences'])}"
    if recorded["state"] == "outside":
        level, apart = round(100 * recorded["confidence"]), recorded["difference"]
        yield (
            f"   OUTSIDE the recorded acceptance: {recorded['mean']:.3f} recorded in {recorded['blocks']} blocks, "
            f"difference {apart['mean']:+.3f}{interval_text(apart)} ({level}%)"
        )


def _drafters(report: Json) -> Iterator[str]:
    for place, one in enumerate(report["drafters"]):
        accepted = one["acceptance"]
        drafts = len(accepted["at_least"])
        scale = "" if one["deployed_mask_scale"] else f" at mask scale {one['mask_scale']:g}"
        yield f"{letter(place)}  {one['kind']} {escape_line(one['path'])}{scale}"
        yield (
            f"   accepted {accepted['mean']:.3f}{interval_text(accepted)} of {drafts} per block, "
            f"{accepted['tokens_per_call']:.3f} tokens per call, {accepted['blocks']} blocks"
        )
        yield from _doubts(one, report)
        if "agreement" in one:
            difference, agreement = one["difference"], one["agreement"]
            yield (
                f"   against A: {difference['mean']:+.3f}{interval_text(difference)} accepted, "
                f"all drafts equal in {agreement['mean']:.3f}{interval_text(agreement, 3)} of blocks"
            )
    yield ""


def _shares(drafters: Sequence[Json]) -> Iterator[str]:
    places = range(1, len(drafters[0]["acceptance"]["at_least"]) + 1)
    yield _row("P(m >= n), n =", [str(n) for n in places])
    for place, one in enumerate(drafters):
        yield _row(f"  {letter(place)} accepted", [f"{p:.3f}" for p in one["acceptance"]["at_least"]])
        if "agreement" in one:
            yield _row(f"  {letter(place)} equal to A", [f"{p:.3f}" for p in one["agreement"]["at_least"]])
    yield ""


def _histogram(drafters: Sequence[Json]) -> Iterator[str]:
    yield _row("blocks with m =", [str(n) for n in range(len(drafters[0]["acceptance"]["histogram"]))])
    for place, one in enumerate(drafters):
        yield _row(f"  {letter(place)}", [str(n) for n in one["acceptance"]["histogram"]])
    yield ""


def _positions(report: Json) -> Iterator[str]:
    drafters, window = report["drafters"], report["ring_rows"]
    buckets = {(b["from"], b["to"]) for one in drafters for rows in one["by_position"].values() for b in rows}
    edges = sorted(buckets)
    yield _row(f"by position, ring {window}", [f"{low}-{high - 1}" for low, high in edges], wide=12)
    for place, one in enumerate(drafters):
        for quantity, rows in sorted(one["by_position"].items()):
            found = {(b["from"], b["to"]): f"{b['mean']:.3f}" for b in rows}
            label = "equal to A" if quantity == "agreement" else quantity
            yield _row(f"  {letter(place)} {label}", [found.get(edge, "-") for edge in edges], wide=12)
    for place, one in enumerate(drafters):
        for quantity, effect in sorted(one["ring"].items()):
            change = effect["change"]
            label = "agreement" if quantity == "agreement" else "acceptance"
            yield f"  {letter(place)} {label} beyond the ring: {change['mean']:+.3f}{interval_text(change)}"


def _sequences(drafters: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield "by sequence: accepted drafts in blocks (blocks equal to A's)"
    for number, rows in enumerate(zip(*(one["per_sequence"] for one in drafters), strict=True)):
        cells = []
        for place, row in enumerate(rows):
            equal = f" ({row['equal_blocks']}/{row['reference_blocks']})" if "equal_blocks" in row else ""
            cells.append(f"{letter(place)} {row['accepted']} in {row['blocks']}{equal}")
        yield f"  {number:>4}  {'  '.join(cells)}"


def _row(label: str, cells: Sequence[str], *, wide: int = 7) -> str:
    return f"{label:<20}" + "".join(f"{cell:>{wide}}" for cell in cells)
