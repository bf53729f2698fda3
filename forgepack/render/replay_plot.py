"""A replay's report as a picture: shares, histogram, and what happens along the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forgepack.render.replay_text import letter
from forgepack.render.svg import Canvas, Panel, colour

Json = Mapping[str, Any]

_WIDTH, _PANEL = 960, (400.0, 210.0)
_LEFT, _RIGHT = 52.0, 532.0
_TOP = 84.0  # of the first row of panels, without the legend
_ROW = 276.0
_LINE = 18.0


def replay_svg(report: Json) -> bytes:
    """Return the picture of a report as an SVG document; the same report gives the same bytes."""
    drafters: Sequence[Json] = report["drafters"]
    name = report.get("workload", "an unnamed workload")
    top = _TOP + _LINE * len(drafters)
    canvas = Canvas(width=_WIDTH, height=round(top + 2 * _ROW - 10), title=f"forgepack replay: {name}")
    _legend(canvas, report, name)
    _shares(_panel(canvas, (_LEFT, top), (0.5, _drafts(report) + 0.5), (0.0, 1.0)), drafters)
    _histogram(canvas, (_RIGHT, top), drafters)
    _accepted(canvas, (_LEFT, top + _ROW), report)
    _agreement(canvas, (_RIGHT, top + _ROW), report)
    return canvas.document()


def _drafts(report: Json) -> int:
    return len(report["drafters"][0]["acceptance"]["at_least"])


def _panel(
    canvas: Canvas, corner: tuple[float, float], across: tuple[float, float], up: tuple[float, float]
) -> Panel:
    return Panel(canvas=canvas, corner=corner, size=_PANEL, across=across, up=up)


def _legend(canvas: Canvas, report: Json, name: str) -> None:
    traces, target = report["traces"], report["target"]
    canvas.words((_LEFT - 30, 26), _cut(name, 90), size=17)
    line = f"{traces['sequences']} sequences, traces {traces['sha256'][:12]}, target {_cut(target['export'], 40)}"
    level = round(100 * report["statistics"]["confidence"])
    canvas.words((_LEFT - 30, 45), f"{line}; bars: {level}% intervals", fill="#666666")
    for place, one in enumerate(report["drafters"]):
        accepted, y = one["acceptance"], 64 + _LINE * place
        canvas.box((_LEFT - 30, y - 10), (12, 12), colour(place))
        text = f"{letter(place)}  {one['kind']} {_cut(one['path'], 60, tail=True)}: {accepted['mean']:.3f} accepted"
        if "agreement" in one:
            text += f", {one['difference']['mean']:+.3f} against A, {one['agreement']['mean']:.3f} of blocks equal"
        canvas.words((_LEFT - 12, y), text)


def _cut(text: str, most: int, *, tail: bool = False) -> str:
    if len(text) <= most:
        return text
    return "…" + text[1 - most :] if tail else text[: most - 1] + "…"


def _shares(panel: Panel, drafters: Sequence[Json]) -> None:
    places = range(1, len(drafters[0]["acceptance"]["at_least"]) + 1)
    panel.frame(
        "P(m ≥ n): share of blocks that accept n drafts or more",
        ticks_x=[(n, str(n)) for n in places],
        ticks_y=_tenths(0.2),
    )
    for place, one in enumerate(drafters):
        panel.series(list(zip(places, one["acceptance"]["at_least"], strict=True)), colour(place))


def _histogram(canvas: Canvas, corner: tuple[float, float], drafters: Sequence[Json]) -> None:
    shares = [[n / max(1, one["acceptance"]["blocks"]) for n in one["acceptance"]["histogram"]] for one in drafters]
    top = 0.1 * -(-max(max(row) for row in shares) // 0.1) or 0.1
    panel = _panel(canvas, corner, (-0.5, len(shares[0]) - 0.5), (0.0, min(1.0, top)))
    panel.frame(
        "share of blocks by accepted drafts m",
        ticks_x=[(n, str(n)) for n in range(len(shares[0]))],
        ticks_y=[tick for tick in _tenths(0.1) if tick[0] <= top + 1e-9],
    )
    wide = 0.8 / len(shares)
    for place, row in enumerate(shares):
        for n, share in enumerate(row):
            panel.bar(n - 0.4 + place * wide, wide * 0.92, share, colour(place))


def _accepted(canvas: Canvas, corner: tuple[float, float], report: Json) -> None:
    drafts = _drafts(report)
    ticks = [(n, str(n)) for n in range(0, drafts + 1, max(1, drafts // 7))]
    title = "accepted drafts per block, by context position"
    _along(canvas, corner, report, ("accepted", title, (0.0, drafts), ticks))


def _agreement(canvas: Canvas, corner: tuple[float, float], report: Json) -> None:
    """Draw agreement along the context, or, where nothing was compared, the mean of each sequence."""
    if any("agreement" in one for one in report["drafters"]):
        title = "share of blocks drafted as A drafts them, by context position"
        _along(canvas, corner, report, ("agreement", title, (0.0, 1.0), _tenths(0.2)))
        return
    rows = report["drafters"][0]["per_sequence"]
    drafts = _drafts(report)
    panel = _panel(canvas, corner, (-0.5, len(rows) - 0.5), (0.0, drafts))
    step = max(1, len(rows) // 12)
    panel.frame(
        "accepted drafts per block, by sequence",
        ticks_x=[(n, str(n)) for n in range(0, len(rows), step)],
        ticks_y=[(n, str(n)) for n in range(drafts + 1)],
    )
    for n, row in enumerate(rows):
        panel.bar(n - 0.4, 0.8, row["accepted"] / max(1, row["blocks"]), colour(0))


def _along(
    canvas: Canvas,
    corner: tuple[float, float],
    report: Json,
    what: tuple[str, str, tuple[float, float], Sequence[tuple[float, str]]],
) -> None:
    """Draw a quantity by bucket, one column a bucket, with the edge of the ring marked."""
    quantity, title, up, ticks_y = what
    drafters = report["drafters"]
    found = [{(b["from"], b["to"]): b for b in one["by_position"].get(quantity, ())} for one in drafters]
    edges = sorted({edge for buckets in found for edge in buckets})
    panel = _panel(canvas, corner, (-0.5, max(0.5, len(edges) - 0.5)), up)
    panel.frame(title, ticks_x=[(n, f"{a}-{b - 1}") for n, (a, b) in enumerate(edges)], ticks_y=ticks_y)
    beyond = [n for n, (low, _) in enumerate(edges) if low >= report["ring_rows"]]
    if beyond:
        panel.mark(beyond[0] - 0.5, f"beyond the ring of {report['ring_rows']}")
    for place, buckets in enumerate(found):
        shift = 0.06 * (place - (len(found) - 1) / 2)
        points = [(n + shift, buckets[edge]) for n, edge in enumerate(edges) if edge in buckets]
        for x, bucket in points:
            if "interval" in bucket:
                panel.span(x, bucket["interval"], colour(place))
        panel.series([(x, bucket["mean"]) for x, bucket in points], colour(place))


def _tenths(step: float) -> list[tuple[float, str]]:
    count = round(1 / step)
    return [(n * step, f"{n * step:.1f}") for n in range(count + 1)]
