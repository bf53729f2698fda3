"""The target's output head, dequantized a chunk of vocabulary rows at a time, and the best candidates by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.drafter.linear import ROW_SPAN
from forgepack.errors import CorruptError, NumericsError
from forgepack.geometry import Geometry
from forgepack.parallel import Pool, spans

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

# Vocabulary rows dequantized at once: 4096 x 5120 float32 are 84 MB.
HEAD_SPAN = 4096
_SIGN = np.uint32(0x80000000)
_LOW = np.uint64(0xFFFFFFFF)


class Head(Protocol):
    """A matrix (vocabulary, hidden) that turns hidden rows into logits."""

    @property
    def vocab(self) -> int:
        """Number of vocabulary rows."""
        ...

    def part(self, span: slice) -> F32:
        """Return the rows of ``span`` as float32."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LutHead:
    """A LUT4 head: one codebook of 16 float16 values, one index a weight, one float16 scale a row."""

    lut: npt.NDArray[np.float16]
    indices: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.float16]

    @property
    def vocab(self) -> int:
        """Number of vocabulary rows."""
        return len(self.indices)

    def part(self, span: slice) -> F32:
        """Return lut[idx]·scale of some rows."""
        values = np.asarray(self.lut, np.float32).reshape(-1)[self.indices[span]]
        values *= np.asarray(self.scale[span], np.float32)[:, None]
        return values


def open_head(file: SafetensorsFile, geometry: Geometry) -> LutHead:
    """Take an export's lm_head.safetensors as a LutHead; CorruptError when its tensors have another form."""
    expected = {
        "lm_head.lut": ("F16", (16, 1)),
        "lm_head.idx": ("U8", (geometry.vocab, geometry.hidden)),
        "lm_head.scale": ("F16", (geometry.vocab,)),
    }
    for name, form in expected.items():
        info = file.info(name)
        if (info.dtype, info.shape) != form:
            raise CorruptError(
                "the head has another form",
                where=f"{file.path}: {name}",
                expected=f"{form[0]} {list(form[1])}",
                found=f"{info.dtype} {list(info.shape)}",
                code="head-form",
            )
    return LutHead(
        lut=file.array("lm_head.lut"), indices=file.array("lm_head.idx"), scale=file.array("lm_head.scale")
    )


def logits(hidden: F32, head: Head, pool: Pool) -> F32:
    """Return all logits (n, vocabulary) of hidden rows (n, H): for few rows only."""
    out = np.empty((len(hidden), head.vocab), np.float32)

    def task(span: slice) -> None:
        out[:, span] = hidden @ head.part(span).T

    pool.spans(head.vocab, HEAD_SPAN, task)
    return out


def best_candidates(hidden: F32, head: Head, count: int, pool: Pool) -> tuple[F32, I64]:
    """Return the ``count`` largest logits of each row (n, H) and their ids, largest first.

    Equal logits are ordered by the lower id, so the result does not depend on how the vocabulary is split.
    NumericsError when a logit is not finite.
    """
    best = np.zeros((len(hidden), count), np.uint64)
    for part in spans(head.vocab, HEAD_SPAN):
        weight = head.part(part)

        def task(rows: slice, part: slice = part, weight: F32 = weight) -> None:
            keys = np.concatenate([best[rows], _keys(hidden[rows] @ weight.T, part.start)], axis=1)
            best[rows] = np.partition(keys, -count, axis=1)[:, -count:]

        pool.spans(len(hidden), ROW_SPAN, task)
    best.sort(axis=1)
    return _values(best[:, ::-1])


def _keys(values: F32, first: int) -> U64:
    """Return keys whose order is (logit, lower id): the float's bits made monotonic, then the id inverted."""
    if not np.isfinite(values).all():
        raise NumericsError("a logit is not finite", hint="check head and drafter", code="nonfinite")
    bits = (values + np.float32(0)).view(np.uint32)  # adding 0 makes -0 and 0 equal
    bits = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    ids = _LOW - np.arange(first, first + values.shape[1], dtype=np.uint64)
    return (bits.astype(np.uint64) << np.uint64(32)) | ids


def _values(keys: U64) -> tuple[F32, I64]:
    bits = (keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(bits & _SIGN, bits ^ _SIGN, ~bits)
    return bits.view(np.float32), (_LOW - (keys & _LOW)).astype(np.int64)
