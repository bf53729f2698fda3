"""Scalable vector graphics by hand: a canvas of lines, boxes and words, and a panel with two axes.

Numbers are written with two digits and text is escaped, so the same values give the same bytes and no name from a
file can become markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape as escape_xml

from forgepack.escaping import escape_line

Point = tuple[float, float]
# Okabe and Ito's colours, which people with any colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, PALE = "#666666", "#DDDDDD"
_FONT = 'font-family="Helvetica, Arial, sans-serif"'


def colour(place: int) -> str:
    """Return the colour of the series at a place; colours repeat after seven."""
    return COLOURS[place % len(COLOURS)]


@dataclass(slots=True, kw_only=True)
class Canvas:
    """A picture of a fixed size in pixels; elements are drawn in the order in which they were added."""

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def line(self, start: Point, end: Point, stroke: str = GREY, *, width: float = 1.0, dash: str = "") -> None:
        """Draw a straight line."""
        style = f'stroke="{stroke}" stroke-width="{width:.2f}"' + (f' stroke-dasharray="{dash}"' if dash else "")
        self._parts.append(
            f'<line x1="{start[0]:.2f}" y1="{start[1]:.2f}" x2="{end[0]:.2f}" y2="{end[1]:.2f}" {style}/>'
        )

    def path(self, points: Sequence[Point], stroke: str) -> None:
        """Draw a line through points."""
        text = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self._parts.append(f'<polyline points="{text}" fill="none" stroke="{stroke}" stroke-width="2"/>')

    def dot(self, centre: Point, fill: str, *, radius: float = 3.5) -> None:
        """Draw a filled circle."""
        self._parts.append(f'<circle cx="{centre[0]:.2f}" cy="{centre[1]:.2f}" r="{radius:.2f}" fill="{fill}"/>')

    def box(self, corner: Point, size: Point, fill: str) -> None:
        """Draw a filled box; ``corner`` is its upper left one."""
        self._parts.append(
            f'<rect x="{corner[0]:.2f}" y="{corner[1]:.2f}" width="{size[0]:.2f}" height="{size[1]:.2f}" '
            f'fill="{fill}"/>'
        )

    def words(self, at: Point, text: str, *, size: int = 12, anchor: str = "start", fill: str = "#000000") -> None:
        """Write one line; ``at`` is its base line's start, middle or end, by ``anchor``."""
        shown = escape_xml(escape_line(text))
        self._parts.append(
            f'<text x="{at[0]:.2f}" y="{at[1]:.2f}" {_FONT} font-size="{size}" text-anchor="{anchor}" '
            f'fill="{fill}">{shown}</text>'
        )

    def document(self) -> bytes:
        """Return the whole picture, on white."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img">'
        )
        title = f"<title>{escape_xml(escape_line(self.title))}</title>"
        ground = f'<rect width="{self.width}" height="{self.height}" fill="#FFFFFF"/>'
        return "\n".join([head, title, ground, *self._parts, "</svg>", ""]).encode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A box on a canvas with a range of values on each axis; y grows upwards."""

    canvas: Canvas
    corner: Point
    size: Point
    across: tuple[float, float]
    up: tuple[float, float]

    def at(self, x: float, y: float) -> Point:
        """Return where a pair of values is on the canvas; values outside the range are put on its edge."""
        share_x = _share(x, self.across)
        share_y = _share(y, self.up)
        return self.corner[0] + share_x * self.size[0], self.corner[1] + (1 - share_y) * self.size[1]

    def frame(
        self, title: str, *, ticks_x: Sequence[tuple[float, str]], ticks_y: Sequence[tuple[float, str]]
    ) -> None:
        """Draw title, grid and the labels of both axes."""
        left, top = self.corner
        bottom = top + self.size[1]
        self.canvas.words((left, top - 10), title, size=13)
        for value, label in ticks_y:
            y = self.at(self.across[0], value)[1]
            self.canvas.line((left, y), (left + self.size[0], y), PALE)
            self.canvas.words((left - 6, y + 4), label, size=11, anchor="end", fill=GREY)
        for value, label in ticks_x:
            x = self.at(value, self.up[0])[0]
            self.canvas.words((x, bottom + 16), label, size=11, anchor="middle", fill=GREY)
        self.canvas.line((left, bottom), (left + self.size[0], bottom))

    def series(self, points: Sequence[Point], stroke: str) -> None:
        """Draw a line through pairs of values, with a dot at each."""
        places = [self.at(x, y) for x, y in points]
        if len(places) > 1:
            self.canvas.path(places, stroke)
        for place in places:
            self.canvas.dot(place, stroke)

    def span(self, x: float, interval: Sequence[float], stroke: str) -> None:
        """Draw an interval of values at one place across."""
        self.canvas.line(self.at(x, interval[0]), self.at(x, interval[1]), stroke, width=1.5)

    def bar(self, x: float, width: float, value: float, fill: str) -> None:
        """Draw a bar from the bottom up to a value; ``x`` is its left edge."""
        (left, top), (right, bottom) = self.at(x, value), self.at(x + width, self.up[0])
        self.canvas.box((left, top), (right - left, bottom - top), fill)

    def mark(self, x: float, label: str) -> None:
        """Draw a dashed line from bottom to top with a word at its foot."""
        top, bottom = self.at(x, self.up[1]), self.at(x, self.up[0])
        self.canvas.line(top, bottom, GREY, dash="4 3")
        self.canvas.words((bottom[0] + 4, bottom[1] - 6), label, size=10, fill=GREY)


def _share(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
