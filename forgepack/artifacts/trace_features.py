"""Whether recorded features can be a target's: every tap alive, and each another layer's state.

A dead tap, a constant one or one that was recorded twice fits every shape, and the errors that a quantization reports
on its rows come out BETTER than honest ones. Checked in each sequence by itself, tap by tap:

* No row of a tap is zero as a whole: a residual state holds the token's embedding.
* A tap varies over rows: at least an eighth of its channels move by more than 2⁻⁹ of their largest value, four
  roundings of float16. Real states move in nearly all channels; a few huge ones that hardly move are usual, so no
  channel weighs more than another. Rows of one token alone may be equal, so they are not checked.
* No tap is another one, nor a multiple of it, nor shifted by a constant or by one row: under the best such fit, at
  most half of the values are equal within 2⁻⁹. Neighbouring layers of real targets differ by several percent.

Variation and copies are checked on up to 32 pairs of neighbouring rows and 512 channels of a sequence. On the
miniature the best such fit gives 0.5% of the values, and every channel moves. Not detected: taps that are exchanged,
channels in another order, sums of other taps, and noise in place of states; a replay's acceptance shows those.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.errors import NumericsError
from forgepack.geometry import Geometry

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]

CLOSE = 2.0**-9
VARYING = 1 / 8
COPIED = 1 / 2
_PAIRS = 32
_CHANNELS = 512
# Fewer values than these show nothing about a fit with two free numbers.
_VALUES = 64
_ABSOLUTE = np.uint16(0x7FFF)


def read_checked_traces(path: Path, geometry: Geometry) -> TraceSet:
    """Read a trace file and check the features of every sequence, as ``check_features`` does."""
    traces = read_traces(path, geometry)
    for sequence in traces.sequences:
        check_features(traces, sequence.index)
    return traces


def check_features(traces: TraceSet, index: int) -> None:
    """Read a sequence's features once, some rows at a time; NumericsError names what they can't be, by layer."""
    sequence = traces.sequences[index]
    chosen = _sampled_rows(sequence.rows)
    kept, start = list[F16](), 0
    stride = -(-traces.geometry.hidden // _CHANNELS)
    for part in traces.feature_parts(index):
        _check_rows(traces, index, part, start)
        here = chosen[(chosen >= start) & (chosen < start + len(part))] - start
        kept.append(part[here][:, :, ::stride])
        start += len(part)
    if not kept or len(chosen) < 2:
        return
    values = np.concatenate(kept).astype(np.float32).transpose(1, 0, 2)
    if len(np.unique(sequence.tokens[chosen])) > 1:
        _check_variation(traces, index, values)
    _check_copies(traces, index, values)


def _sampled_rows(rows: int) -> npt.NDArray[np.int64]:
    """Return rows t, t + 1 for evenly spaced even numbers t."""
    first = np.unique(np.linspace(0, max(0, rows - 2), _PAIRS).astype(np.int64) // 2 * 2)
    both = np.stack([first, first + 1], axis=1).reshape(-1)
    return both[both < rows // 2 * 2]


def _check_rows(traces: TraceSet, index: int, part: F16, start: int) -> None:
    bits = np.ascontiguousarray(part).view(np.uint16) & _ABSOLUTE
    alive: npt.NDArray[np.bool_] = np.any(bits, axis=2)
    if alive.all():
        return
    tap = int(np.argmin(alive.all(axis=0)))
    dead = np.flatnonzero(~alive[:, tap])
    found = f"zero in row {start + int(dead[0])}" + (f" and {len(dead) - 1} more" if len(dead) > 1 else "")
    raise _fault(traces, index, tap, found=found)


def _check_variation(traces: TraceSet, index: int, values: F32) -> None:
    """Check taps (taps, rows, channels) by the channels that move over rows."""
    moved = values.max(axis=1) - values.min(axis=1) > CLOSE * np.abs(values).max(axis=1)
    shares = moved.mean(axis=1)
    tap = int(np.argmin(shares))
    if shares[tap] < VARYING:
        found = f"constant: {shares[tap]:.0%} of its channels vary over {values.shape[1]} rows"
        raise _fault(traces, index, tap, found=found)


def _check_copies(traces: TraceSet, index: int, values: F32) -> None:
    """Check each pair of taps (taps, rows, channels), rows in pairs of neighbours, at no shift and at one row's."""
    taps = traces.geometry.taps
    for left, right in combinations(range(len(taps)), 2):
        for shift, x, y in _shifts(values[left], values[right]):
            factor, offset, share = fit_copy(x, y)
            if share > COPIED:
                found = f"{_relation(factor, offset)} the tap of layer {taps[left]}{shift}"
                raise _fault(traces, index, right, found=found)


def _shifts(left: F32, right: F32) -> Iterator[tuple[str, F32, F32]]:
    yield "", right.reshape(-1), left.reshape(-1)
    yield ", one row later", right[1::2].reshape(-1), left[0::2].reshape(-1)
    yield ", one row earlier", right[0::2].reshape(-1), left[1::2].reshape(-1)


def fit_copy(x: F32, y: F32) -> tuple[float, float, float]:
    """Fit x = factor·y + offset by medians; return both, and the share of values that it gives within CLOSE."""
    if x.size < _VALUES:
        return 1.0, 0.0, 0.0
    steps = y - np.roll(y, 1)
    moving = steps != 0
    if not moving.any():
        return 1.0, 0.0, 0.0
    factor = float(np.median((x - np.roll(x, 1))[moving] / steps[moving]))
    offset = float(np.median(x - factor * y))
    size = np.maximum(np.maximum(np.abs(x), np.abs(factor * y)), abs(offset))
    share = float(np.mean(np.abs(x - (factor * y + offset)) <= CLOSE * size))
    return factor, offset, share if factor else 0.0


def _relation(factor: float, offset: float) -> str:
    words = "" if abs(factor - 1) < CLOSE else f"{factor:.4g} times"
    if abs(offset) > CLOSE:
        return f"{offset:.4g} plus {words}".rstrip()
    return words or "equal to"


def _fault(traces: TraceSet, index: int, tap: int, *, found: str) -> NumericsError:
    return NumericsError(
        "a tap of the traces can't be the state of its layer",
        where=f"{traces.path}: sequence {index}, tap of layer {traces.geometry.taps[tap]} (feats_{index}[:, {tap}])",
        expected="states that vary over rows, and others than every other tap's",
        found=found,
        hint=f"record the traces again: the outputs of layers {', '.join(map(str, traces.geometry.taps))}",
        code="traces-taps",
    )
