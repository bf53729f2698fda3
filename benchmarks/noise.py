"""Random arrays that depend on seed, label and place alone, never on threads or on the order of the work.

Each fixed span of rows has a generator of its own, so spans may be made in any order by any number of threads.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]

# Values of one span: 4M float32 are 16 MB, so that memory stays bounded whatever the array.
SPAN_VALUES = 1 << 22
OUTLIERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A source of independent generators for one seed."""

    seed: int

    def generator(self, label: str, span: int = 0) -> np.random.Generator:
        """Return the generator of a label and of one of its spans."""
        return np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(label.encode()), len(label), span]))

    def normal(self, label: str, shape: tuple[int, ...]) -> F32:
        """Return a small standard normal array from one generator."""
        return self.generator(label).standard_normal(shape, np.float32)

    def scales(self, label: str, count: int, *, spread: float, outliers: float, factor: float) -> F32:
        """Return heavy-tailed positive scales: log-normal, and a share of ``outliers`` larger by ``factor``."""
        draw = self.generator(label)
        values: F32 = np.exp(spread * draw.standard_normal(count, np.float32))
        values[draw.random(count) < outliers] *= np.float32(factor)
        return values


def outlier_channels(hidden: int, noise: Noise) -> F32:
    """Return the features' outlier channels: their mean, 20 to 100 times the rest, at a few places, 0 elsewhere."""
    out = np.zeros(hidden, np.float32)
    draw = noise.generator("outliers")
    places = draw.choice(hidden, OUTLIERS, replace=False)
    out[places] = draw.choice([-1, 1], OUTLIERS) * np.geomspace(20, 100, OUTLIERS)
    return out


def for_spans(shape: tuple[int, int], pool: Pool, task: Callable[[int, slice], None]) -> None:
    """Run ``task(number, rows)`` on spans of rows of about SPAN_VALUES values each."""
    step = max(1, SPAN_VALUES // max(1, shape[1]))
    pool.spans(shape[0], step, lambda rows: task(rows.start // step, rows))
