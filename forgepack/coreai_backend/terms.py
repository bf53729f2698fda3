"""What the values of a final norm are, in algebra: products of x, of numbers per row, and of a gain.

A norm is written in many ways, each with its own guard against overflow: divided by the largest value first or not,
eps as it is, as a root, or divided along. As formulas they are one: x · Q^-1/2 · gain with Q = mean(x²) + eps, and
whatever else there is cancels. So each value is kept as the product that it is. Which element stands where is kept
apart, as an array of cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]
Span = Literal["number", "row", "channel", "element"]
_ORDER: tuple[Span, ...] = ("number", "row", "channel", "element")
_CLOSE = 1e-6


class NotUnderstoodError(ValueError):
    """The algebra does not know a form; nothing is said of whether it is right."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """``number · x^power · mean(x²)^mean · Π symbol^power · gain`` for each cell.

    A cell is ``channel·rows + row`` for an element of x, the row for a number per row, the channel for a factor per
    channel, 0 for one number. ``symbols`` are positive numbers per row, each known by the operation that made it;
    ``absolute`` marks |x|; ``gains`` are constants of one factor per channel.
    """

    cells: Cells
    span: Span
    number: float = 1.0
    power: int = 0
    mean: int = 0
    absolute: bool = False
    symbols: Mapping[int, Fraction] = field(default_factory=dict)
    gains: tuple[int, ...] = ()

    @property
    def positive(self) -> bool:
        """Whether this is a positive number, or one per row, without x itself."""
        return not (self.power or self.mean or self.gains) and self.number > 0

    @property
    def text(self) -> str:
        """The product as a formula."""
        names = [f"{self.number:g}"] if self.number != 1.0 else []
        names += [("|x|" if self.absolute else "x") + (f"^{self.power}" if self.power != 1 else "")] * bool(
            self.power
        )
        names += ["mean(x^2)"] * self.mean
        names += [f"(operation {key})^{power}" for key, power in sorted(self.symbols.items())]
        names += ["a factor per channel"] * len(self.gains)
        return " * ".join(names) or "1"


class NormAlgebra:
    """Arithmetic on terms over x of ``columns`` channels and ``rows`` rows; ``root`` is the operation that made Q."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self.root: int | None = None
        self.eps: float | None = None

    def product(self, one: Term, other: Term, *, sign: int = 1) -> Term:
        """Return the product, or with ``sign`` -1 the quotient, broadcast."""
        if one.absolute or other.absolute or (sign < 0 and not other.positive):
            raise NotUnderstoodError(f"{one.text} and {other.text}")
        cells, span = self._joined(one, other)
        powers = {key: one.symbols.get(key, 0) + sign * other.symbols.get(key, 0) for key in _keys(one, other)}
        return Term(
            cells=cells,
            span=span,
            number=one.number * other.number**sign,
            power=one.power + other.power,
            mean=one.mean + other.mean,
            symbols={key: Fraction(power) for key, power in powers.items() if power},
            gains=(*one.gains, *other.gains),
        )

    def absolute(self, term: Term) -> Term:
        """Return |term|, which only the largest value is taken of."""
        if term.power != 1 or term.gains or term.number <= 0:
            raise NotUnderstoodError(f"|{term.text}|")
        return replace(term, absolute=True)

    def largest(self, place: int, term: Term, axes: tuple[int, ...]) -> Term:
        """Return max|x| of each row as a symbol."""
        if not term.absolute or term.span != "element":
            raise NotUnderstoodError(f"the largest of {term.text}")
        return Term(cells=self._reduced(term.cells, axes), span="row", symbols={place: Fraction(1)})

    def floored(self, place: int, one: Term, other: Term) -> Term:
        """Return the larger of a number per row and a positive number as a symbol."""
        one, other = (other, one) if one.span == "number" else (one, other)
        if one.span != "row" or other.span != "number" or not (one.positive and other.positive):
            raise NotUnderstoodError(f"the larger of {one.text} and {other.text}")
        return replace(one, number=1.0, symbols={place: Fraction(1)})

    def mean(self, term: Term, axes: tuple[int, ...], *, total: bool = False) -> Term:
        """Return the mean, or with ``total`` the sum, over the channels of each row: of a square alone."""
        if term.power != 2 or term.span != "element" or term.gains or term.absolute:
            raise NotUnderstoodError(f"the mean of {term.text}")
        number = term.number * (self._columns if total else 1)
        return replace(term, cells=self._reduced(term.cells, axes), span="row", number=number, power=0, mean=1)

    def sum(self, place: int, one: Term, other: Term) -> Term:
        """Return mean(x²) + eps, both divided along or neither; no other sum belongs to a norm."""
        one, other = (other, one) if other.mean else (one, other)
        alike = other.number == 0 or dict(one.symbols) == dict(other.symbols)
        plain = other.span in ("number", "row") and not (other.mean or other.power or other.gains)
        if one.mean != 1 or not plain or not alike or other.number < 0:
            raise NotUnderstoodError(f"{one.text} + {other.text}")
        cells, _ = self._joined(one, other)
        return self._named(place, replace(one, cells=cells), other.number / one.number)

    def raised(self, place: int, term: Term, exponent: Fraction) -> Term:
        """Return a power of a positive number per row; a mean square without eps becomes Q here."""
        if term.mean == 1:
            term = self._named(place, term, 0.0)
        if not term.positive:
            raise NotUnderstoodError(f"a root of {term.text}")
        symbols = {key: power * exponent for key, power in term.symbols.items()}
        return replace(term, number=float(term.number ** float(exponent)), symbols=symbols)

    def is_normed(self, term: Term) -> bool:
        """Whether a term is x · Q^-1/2 · gain, and nothing else."""
        alone = term.power == 1 and not (term.mean or term.absolute) and abs(term.number - 1.0) < _CLOSE
        return alone and len(term.gains) == 1 and dict(term.symbols) == {self.root: Fraction(-1, 2)}

    def _named(self, place: int, term: Term, eps: float) -> Term:
        if self.root is not None:
            raise NotUnderstoodError("a second mean square")
        self.root, self.eps = place, eps
        return replace(term, mean=0, symbols={**term.symbols, place: Fraction(1)})

    def _joined(self, one: Term, other: Term) -> tuple[Cells, Span]:
        """Return cells and span of both broadcast; each cell must meet what belongs to its own row or channel."""
        if _ORDER.index(one.span) < _ORDER.index(other.span):
            one, other = other, one
        try:
            left, right = np.broadcast_arrays(one.cells, other.cells)
        except ValueError as err:
            raise NotUnderstoodError("shapes that can't be broadcast") from err
        met = left
        if one.span == "element" and other.span in ("row", "channel"):
            met = left % self._rows if other.span == "row" else left // self._rows
        elif other.span not in (one.span, "number"):
            raise NotUnderstoodError("numbers per row with factors per channel")
        if other.span != "number" and not np.array_equal(met, right):
            raise NotUnderstoodError("values of one row or channel with those of another")
        return np.array(left), one.span

    def _reduced(self, cells: Cells, axes: tuple[int, ...]) -> Cells:
        """Return the row of each cell of a reduction, which must take every channel of one row once."""
        if not all(0 <= axis < cells.ndim for axis in axes):
            raise NotUnderstoodError(f"a reduction over axes {axes}")
        kept = np.moveaxis(cells, axes, range(-len(axes), 0))
        groups = np.sort(kept.reshape(*kept.shape[: kept.ndim - len(axes)], -1), axis=-1)
        rows = groups[..., 0] % self._rows
        channels = np.arange(self._columns) * self._rows
        if groups.shape[-1] != channels.size or not np.array_equal(groups, rows[..., None] + channels):
            raise NotUnderstoodError("a reduction over others than the channels of one row")
        return rows.reshape([1 if n in axes else size for n, size in enumerate(cells.shape)])


def _keys(one: Term, other: Term) -> set[int]:
    return {*one.symbols, *other.symbols}
