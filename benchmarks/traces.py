"""Synthetic traces whose features are like a model's: without that, GPTQ would equal rounding.

The residual stream is a random walk over the tapped layers: each adds a signal of low rank with a falling spectrum,
slow over time, and some noise, so that taps are correlated with each other. Channels have heavy-tailed scales, and a
few outlier channels stand 20 to 100 times above the rest, with one sign, in all taps. Everything fits float16.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.noise import Noise, outlier_channels
from benchmarks.scales import Scale
from forgepack.canonical import dump_compact
from forgepack.geometry import Geometry
from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]

MEAN_HIT = 0.72  # probability that one more draft is accepted: a mean of 2.3 of 7
LARGEST = 30_000.0
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """What all sequences share: how each tap's latent signal becomes channels, channel scales, outliers."""

    mixing: tuple[F32, ...]
    channels: F32
    outliers: F32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequence:
    """One sequence, features aside."""

    tokens: npt.NDArray[np.int32]
    plen: int
    accepted: npt.NDArray[np.int8]


def make_stream(g: Geometry, rank: int, noise: Noise) -> Stream:
    """Draw what all sequences share: about rank x features float32 values."""
    spectrum = (np.arange(1, rank + 1, dtype=np.float32) ** np.float32(-0.6))[:, None]
    spectrum /= np.sqrt(np.square(spectrum).sum())
    return Stream(
        mixing=tuple(noise.normal(f"stream/tap{n}", (rank, g.hidden)) * spectrum for n in range(len(g.taps))),
        channels=noise.scales("stream/channels", g.hidden, spread=0.5, outliers=0.01, factor=4.0),
        outliers=outlier_channels(g.hidden, noise),
    )


def make_sequence(label: str, scale: Scale, noise: Noise) -> Sequence:
    """Draw tokens (a few are common, most are rare) and the accepted drafts of each cycle."""
    draw, shape = noise.generator(label), scale.traces
    plen = int(draw.integers(shape.prompt[0], shape.prompt[1] + 1))
    count, used = plen + shape.new_tokens, scale.profile.target.used_tokens
    ranks = np.minimum(draw.pareto(0.8, count) * 20, used - 1).astype(np.int64)
    tokens = (ranks * 2_654_435_761 % used).astype(np.int32)
    hit = np.clip(MEAN_HIT + 0.06 * draw.standard_normal(), 0.5, 0.9)
    top = scale.profile.geometry.block - 1
    accepted, place = [], plen
    while place < count:
        accepted.append(min(top, int(draw.geometric(1 - hit)) - 1))
        place += accepted[-1] + 1
    return Sequence(tokens=tokens, plen=plen, accepted=np.array(accepted, np.int8))


def make_features(label: str, rows: int, *, stream: Stream, noise: Noise) -> npt.NDArray[np.float16]:
    """Return features (rows, taps, hidden): all taps of one sequence."""
    taps, (rank, hidden) = len(stream.mixing), stream.mixing[0].shape
    out = np.empty((rows, taps, hidden), np.float16)
    residual = np.zeros((rows, hidden), np.float32)
    for tap, mixing in enumerate(stream.mixing):
        draw = noise.generator(f"{label}/tap{tap}")
        latent = _slow(draw.standard_normal((rows, rank), np.float32))
        step = latent @ mixing
        step += np.float32(0.5) * draw.standard_normal((rows, hidden), np.float32)
        step *= stream.channels
        step += stream.outliers * (1 + np.float32(0.3) * draw.standard_normal((rows, 1), np.float32))
        residual += np.float32(1 + 0.5 * tap) * step
        np.clip(residual, -LARGEST, LARGEST, out=residual)
        out[:, tap] = residual
    return out


def _slow(latent: F32) -> F32:
    """Turn independent rows into a first-order process over time of unit variance, correlation 0.6."""
    for row in range(1, len(latent)):
        latent[row] = np.float32(0.6) * latent[row - 1] + np.float32(0.8) * latent[row]
    return latent


def write_traces(path: Path, scale: Scale, noise: Noise, pool: Pool, *, identity: dict[str, Any]) -> None:
    """Write one trace file, ``identity['split']`` naming its sequences; members in a fixed order with a fixed date.

    Features are made two sequences at a time: memory holds the shared stream and those.
    """
    split = str(identity["split"])
    count = scale.traces.calibration if split == "calibration" else scale.traces.held_out
    stream = make_stream(scale.profile.geometry, scale.rank, noise)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        _write_member(archive, "forgepack_identity", np.frombuffer(dump_compact(identity), np.uint8))
        for first in range(0, count, 2):
            _write_pair(archive, split, range(first, min(first + 2, count)), _Source(scale, noise, stream, pool))


@dataclass(frozen=True, slots=True)
class _Source:
    scale: Scale
    noise: Noise
    stream: Stream
    pool: Pool


def _write_pair(archive: zipfile.ZipFile, split: str, numbers: range, source: _Source) -> None:
    sequences = [make_sequence(f"{split}/{n}", source.scale, source.noise) for n in numbers]
    features: list[npt.NDArray[np.float16] | None] = [None] * len(sequences)

    def task(span: slice) -> None:
        n, rows = span.start, len(sequences[span.start].tokens) - 1
        label = f"{split}/{numbers[n]}/features"
        features[n] = make_features(label, rows, stream=source.stream, noise=source.noise)

    source.pool.spans(len(sequences), 1, task)
    for number, sequence, values in zip(numbers, sequences, features, strict=True):
        _write_member(archive, f"tokens_{number}", sequence.tokens)
        _write_member(archive, f"plen_{number}", np.array(sequence.plen, np.int64))
        _write_member(archive, f"feats_{number}", np.asarray(values))
        _write_member(archive, f"m_{number}", sequence.accepted)


def _write_member(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> None:
    info = zipfile.ZipInfo(f"{name}.npy", _ZIP_DATE)
    info.create_system, info.external_attr = 3, 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)
