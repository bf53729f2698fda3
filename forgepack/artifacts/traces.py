"""Calibration traces: tokens, prompt length, features and accepted drafts of recorded sequences.

Format (``np.savez``), per sequence j: ``tokens_j`` int32 (n,), ``plen_j`` 0-d integer, ``feats_j`` float16
(rows, taps, hidden), ``m_j`` int8 (cycles,). Traces that this project writes also hold ``forgepack_identity``,
a JSON object as uint8; others carry no identity and are *unbound*. Any other key is refused: a key that this tool
does not know could change what the others mean.

A block starts at ``plen`` and then at every ``p + m + 1``; it is walked while its ``block`` tokens are inside the
sequence and its context has features. Cycles recorded after the last such block are counted, not used; they must
still start inside the sequence.

A recorder that stops appending tokens at an end token or at its limit keeps the feature rows and the m of the cycle
that it stopped in, so up to ``block`` - 1 rows are beyond the tokens: they are counted, not used, and never read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.npz import NpzArray, NpzFile, read_npz
from forgepack.artifacts.trace_identity import TraceIdentity, parse_identity
from forgepack.errors import CorruptError, LimitError, NumericsError
from forgepack.finite import find_nonfinite
from forgepack.geometry import Geometry
from forgepack.limits import ALL_TOKENS, SEQUENCE_TOKENS, SEQUENCES, TRACE_IDENTITY

IDENTITY_KEY = "forgepack_identity"
MAX_SEQUENCES = SEQUENCES
MAX_TOKENS = SEQUENCE_TOKENS
MAX_ALL_TOKENS = ALL_TOKENS
MAX_IDENTITY = TRACE_IDENTITY
# Feature rows in memory at once while a sequence is read: 256 rows are 13 MB at the release's size.
PART_ROWS = 256
_KEY = re.compile(r"(tokens|plen|feats|m)_(0|[1-9][0-9]{0,3})")
_KINDS = ("tokens", "plen", "feats", "m")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceSequence:
    """One sequence: everything but its features.

    ``positions`` are the starts of the walked blocks, ``accepted`` their recorded m (both int64, same length);
    ``ignored`` counts recorded cycles after the last walked block; ``rows`` is the number of feature rows that belong
    to tokens, ``beyond`` how many more there are, and ``context_rows`` how many of them the walk commits.
    """

    index: int
    tokens: npt.NDArray[np.int32]
    plen: int
    rows: int
    beyond: int
    positions: npt.NDArray[np.int64]
    accepted: npt.NDArray[np.int64]
    ignored: int

    @property
    def context_rows(self) -> int:
        """Feature rows that a replay adds to the context: up to the end of the last walked block's commit."""
        if not self.positions.size:
            return min(self.plen, self.rows)
        return min(int(self.positions[-1] + self.accepted[-1]) + 1, self.rows)

    def fed_rows(self, window: int) -> slice:
        """Return which context rows feed a Hessian: of a prompt longer than the ring its last ``window`` rows alone.

        No block sees an earlier row, and the recorder's own calibration feeds the same ones.
        """
        return slice(max(0, min(self.plen, self.context_rows) - window), self.context_rows)

    @property
    def generated(self) -> npt.NDArray[np.int32]:
        """The tokens behind the prompt."""
        return self.tokens[self.plen :]

    @property
    def counted(self) -> int:
        """How many walked blocks a replay counts: up to the first whose commit runs past the feature rows."""
        ends = self.positions + self.accepted + 1
        return int(np.count_nonzero(ends <= self.rows))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceSet:
    """A checked trace file; features are read one sequence at a time."""

    path: Path
    digest: str
    bytes: int
    geometry: Geometry
    sequences: tuple[TraceSequence, ...]
    identity: TraceIdentity | None
    archive: NpzFile

    def features(self, index: int) -> npt.NDArray[np.float16]:
        """Return the features of a sequence's tokens, float16 (rows, taps x hidden): taps side by side in tap order.

        NumericsError names the first value that is not finite.
        """
        parts = self.feature_parts(index)
        out = np.empty((self.sequences[index].rows, self.geometry.features), np.float16)
        start = 0
        for part in parts:
            out[start : start + len(part)] = part.reshape(len(part), -1)
            start += len(part)
        return out

    def feature_parts(self, index: int, rows: int = PART_ROWS) -> Iterator[npt.NDArray[np.float16]]:
        """Yield the features of a sequence's tokens as (rows, taps, hidden), some rows at a time.

        NumericsError names the first value that is not finite.
        """
        start = 0
        for part in self.archive.stream(f"feats_{index}", stop=self.sequences[index].rows, rows=rows):
            bad = find_nonfinite(part)
            if bad is not None:
                count, first = bad
                row, tap, channel = (int(n) for n in np.unravel_index(first, part.shape))
                raise NumericsError(
                    f"{count} feature values are not finite",
                    where=f"{self.path}: feats_{index}{[start + row, tap, channel]}",
                    found=str(part[row, tap, channel]),
                    hint="record the traces again",
                    code="nonfinite",
                )
            start += len(part)
            yield part

    @property
    def blocks(self) -> int:
        """Number of walked blocks of all sequences."""
        return sum(s.positions.size for s in self.sequences)


def read_traces(path: Path, geometry: Geometry) -> TraceSet:
    """Read and check a trace file of ``geometry``; features are checked when they are read."""
    archive = read_npz(path)
    size, digest = hash_file(path)
    _check_keys(path, archive.arrays)
    count = sum(name.startswith("tokens_") for name in archive.arrays)
    _check_size(archive, count)
    identity = _identity(archive) if IDENTITY_KEY in archive.arrays else None
    return TraceSet(
        path=path,
        digest=digest,
        bytes=size,
        geometry=geometry,
        sequences=tuple(_read_sequence(archive, j, geometry) for j in range(count)),
        identity=identity,
        archive=archive,
    )


def _check_size(archive: NpzFile, count: int) -> None:
    """Bound what is read at once, before it is: the tokens of all sequences."""
    total = sum(math.prod(archive.arrays[f"tokens_{number}"].shape) for number in range(count))
    if total > MAX_ALL_TOKENS:
        raise LimitError(
            "the traces hold too many tokens",
            where=str(archive.path),
            expected=f"at most {MAX_ALL_TOKENS}",
            found=str(total),
            hint="split the file",
            code="traces-limit",
        )


def _identity(archive: NpzFile) -> TraceIdentity:
    info = archive.arrays[IDENTITY_KEY]
    where = f"{archive.path}: {IDENTITY_KEY}"
    if info.dtype != "|u1" or len(info.shape) != 1 or info.bytes > MAX_IDENTITY:
        raise CorruptError(
            "the identity must be JSON as uint8",
            where=where,
            expected=f"|u1, one axis, at most {MAX_IDENTITY} bytes",
            found=f"{info.dtype} {info.shape}",
            code="traces-identity",
        )
    return parse_identity(archive.read(IDENTITY_KEY).tobytes(), where=where)


def _check_keys(path: Path, arrays: Mapping[str, NpzArray]) -> None:
    """Demand all four keys of sequences 0..n-1 and no other key but the identity."""
    numbers: set[int] = set()
    for name in sorted(set(arrays) - {IDENTITY_KEY}):
        match = _KEY.fullmatch(name)
        if match is None:
            raise CorruptError("an unknown key in the traces", where=f"{path}: {name!r}", code="traces-key")
        numbers.add(int(match.group(2)))
    if not numbers:
        raise CorruptError("the traces hold no sequence", where=str(path), code="traces-empty")
    if len(numbers) > MAX_SEQUENCES:
        raise LimitError("too many sequences", where=str(path), found=str(len(numbers)), code="traces-limit")
    for number in range(max(numbers) + 1):
        for kind in _KINDS:
            if f"{kind}_{number}" not in arrays:
                raise CorruptError("a key is missing", where=f"{path}: '{kind}_{number}'", code="traces-key")


def _read_sequence(archive: NpzFile, number: int, geometry: Geometry) -> TraceSequence:
    _check_forms(archive, number, geometry)
    where = f"{archive.path}: sequence {number}"
    tokens, accepted = archive.read(f"tokens_{number}"), archive.read(f"m_{number}").astype(np.int64)
    plen, rows = int(archive.read(f"plen_{number}")), archive.arrays[f"feats_{number}"].shape[0]
    _check_range(where + ".tokens", tokens, geometry.vocab - 1)
    _check_range(where + ".m", accepted, geometry.block - 1)
    _check_range(where + ".plen", np.array([plen - 1]), len(tokens) - 1, shift=1)
    most = len(tokens) + geometry.block - 1
    if not plen <= rows <= most:
        raise _schedule(where, f"{plen}..{most} feature rows for {len(tokens)} tokens", f"{rows} rows")
    used = min(rows, len(tokens))
    starts = plen + np.concatenate([[0], np.cumsum(accepted + 1)[:-1]]).astype(np.int64)[: len(accepted)]
    if starts.size and int(starts[-1]) >= len(tokens):
        cycle = int(np.argmax(starts >= len(tokens)))
        found = f"m[{cycle}] starts at {starts[cycle]}"
        raise _schedule(where, f"every block to start before token {len(tokens)}", found)
    walked = int(np.count_nonzero((starts + geometry.block <= len(tokens)) & (starts <= used)))
    return TraceSequence(
        index=number,
        tokens=tokens,
        plen=plen,
        rows=used,
        beyond=rows - used,
        positions=starts[:walked],
        accepted=accepted[:walked],
        ignored=len(accepted) - walked,
    )


def _check_forms(archive: NpzFile, number: int, geometry: Geometry) -> None:
    arrays = archive.arrays
    length = arrays[f"tokens_{number}"].shape[:1]
    for kind in ("tokens", "m", "feats"):
        longest = arrays[f"{kind}_{number}"].shape[:1]
        if longest and longest[0] > MAX_TOKENS:
            raise LimitError(
                "a sequence is too long",
                where=f"{archive.path}: '{kind}_{number}'",
                expected=f"at most {MAX_TOKENS}",
                found=str(longest[0]),
                code="traces-limit",
            )
    rows = arrays[f"feats_{number}"].shape[:1]
    cycles = arrays[f"m_{number}"].shape[:1]
    if length and cycles > length:
        where = f"{archive.path}: sequence {number}"
        raise _schedule(where, f"at most {length[0]} cycles, one a token", f"{cycles[0]} cycles")
    expected: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
        "tokens": (("<i4",), length),
        "plen": (("<i8", "<i4"), ()),
        "feats": (("<f2",), (*rows, len(geometry.taps), geometry.hidden)),
        "m": (("|i1",), cycles),
    }
    for kind, (dtypes, shape) in expected.items():
        info = arrays[f"{kind}_{number}"]
        if info.dtype not in dtypes or info.shape != shape or (kind != "plen" and not shape):
            raise CorruptError(
                "an array of the traces has another form",
                where=f"{archive.path}: '{kind}_{number}'",
                expected=f"{dtypes[0]} {list(shape)}",
                found=f"{info.dtype} {list(info.shape)}",
                hint="record traces with this profile's target and taps, or name their profile by --profile",
                code="traces-form",
            )


def _check_range(where: str, values: npt.NDArray[Any], top: int, *, shift: int = 0) -> None:
    bad = np.flatnonzero((values < 0) | (values > top))
    if bad.size:
        raise CorruptError(
            "a value of the traces is out of range",
            where=f"{where}[{bad[0]}]" if values.size > 1 else where,
            expected=f"{shift}..{top + shift}",
            found=str(int(values[bad[0]]) + shift),
            code="traces-range",
        )


def _schedule(where: str, expected: str, found: str) -> CorruptError:
    what = "the recorded blocks do not fit the sequence"
    return CorruptError(what, where=where, expected=expected, found=found, code="traces-schedule")
