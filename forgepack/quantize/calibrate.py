"""Calibration: the forward pass over all recorded blocks feeds each matrix's Hessian, layer by layer.

Rows that feed a Hessian (the release contract, section 3): ``fc`` the context rows; k_proj and v_proj the fused
context rows and the rows of each block; every other matrix the rows of each block. Of a prompt longer than the ring
its last rows alone count as context. Calibration sequences stand first, held-out ones after them: the same pass
serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, spans
from forgepack.quantize.hessian import PANEL, Gram, new_gram
from forgepack.quantize.judge import Outputs, hold_out
from forgepack.quantize.matrix import Inputs, MatrixQuantizer
from forgepack.quantize.result import Parts

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Rows = npt.NDArray[np.floating]
Note = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Calibrator:
    """An Observer that quantizes each matrix as soon as its input rows are there.

    ``block_rows`` and ``sequences`` say how many rows of blocks, and how many sequences, are calibration; what
    follows them is held out. ``fed`` says which context rows of each sequence feed a Hessian. ``note`` is given the
    name of each matrix when it is finished or found finished.
    """

    quantizer: MatrixQuantizer
    parts: Parts
    block_rows: int
    sequences: int
    fed: tuple[slice, ...]
    note: Note
    outputs: Outputs = field(default_factory=Outputs)
    _context: Gram | None = field(default=None)

    @property
    def pool(self) -> Pool:
        """The pool that all work runs on."""
        return self.quantizer.pool

    def observe_features(
        self, calibration: Callable[[], Iterable[Rows]], held_out: Callable[[], Iterable[Rows]]
    ) -> None:
        """Quantize ``fc`` on the feature rows of each sequence, read twice from their file."""
        if self._pending(("fc.weight",)):
            gram = self._sum("fc.weight", panels(calibration()))
            self._quantize(("fc.weight",), gram, lambda: panels(held_out()))

    def observe(self, names: tuple[str, ...], rows: F32) -> None:
        """Quantize matrices that block rows alone feed."""
        pending = self._pending(names)
        if not pending:
            return
        calibration, held_out = rows[: self.block_rows], rows[self.block_rows :]
        if names[0].endswith(".kernel_projection.weight"):
            result = self.quantizer.int8(names[0], lambda: panels([calibration]), lambda: panels([held_out]))
            self.parts.save(result)
            self.note(names[0])
        else:
            gram = self._sum(names[0], panels([calibration]))
            self._quantize(pending, gram, lambda: panels([held_out]))

    def observe_attention(self, layer: int, rows: F32, contexts: list[F32]) -> None:
        """Quantize q_proj on block rows, k_proj and v_proj on block rows and fused context rows."""
        q, k, v = (f"layers.{layer}.self_attn.{part}_proj.weight" for part in "qkv")
        if not self._pending((q, k, v)):
            return
        calibration, held_out = rows[: self.block_rows], rows[self.block_rows :]
        gram = self._sum(q, panels([calibration]))
        both = self._pending((k, v))
        if both:
            contexts = [context[rows] for context, rows in zip(contexts, self.fed, strict=True)]
            context = self._context_sum(contexts[: self.sequences])
            joined = Gram(total=gram.total + context.total, rows=gram.rows + context.rows)
            self._quantize(both, joined, lambda: panels([*contexts[self.sequences :], held_out]))
        if self._pending((q,)):
            self._quantize((q,), gram, lambda: panels([held_out]))

    def observe_product(self, name: str, start: int, product: F32) -> None:
        """Sum up the squared outputs of block rows."""
        self.outputs.add(name, (1, start), product, calibration=max(0, self.block_rows - start))

    def observe_context_product(self, name: str, sequence: int, product: F32) -> None:
        """Sum up the squared outputs of one sequence's context rows."""
        fed = product[self.fed[sequence]]
        self.outputs.add(name, (0, sequence), fed, calibration=len(fed) * (sequence < self.sequences))

    def _pending(self, names: tuple[str, ...]) -> tuple[str, ...]:
        pending = tuple(n for n in names if self.parts.load(n) is None)
        for name in names:
            if name not in pending:
                self.note(name)
        return pending

    def _context_sum(self, contexts: list[F32]) -> Gram:
        """Return the sum over fused context rows: the same for every layer, so it is kept."""
        if self._context is None:
            self._context = self._sum("the fused context", panels(contexts))
        return self._context

    def _sum(self, where: str, source: Iterable[F32]) -> Gram:
        gram: Gram | None = None
        for panel in source:
            gram = gram or new_gram(panel.shape[1])
            gram.add(panel, self.pool)
        if gram is None or not gram.rows:
            raise NumericsError("no calibration row feeds a matrix", where=where, hint="record longer traces")
        gram.mirror(self.pool, where)
        return gram

    def _quantize(self, names: tuple[str, ...], gram: Gram, held_out: Callable[[], Iterable[F32]]) -> None:
        gram.total /= gram.rows
        inputs = Inputs(hessian=gram.total, rows=gram.rows, held_out=hold_out(held_out, self.pool))
        for result in self.quantizer.lut4(names, inputs):
            self.parts.save(result)
            self.note(result.name)


def panels(arrays: Iterable[Rows]) -> Iterator[F32]:
    """Join rows of several arrays into float32 panels of 4096 rows, the last one shorter.

    Few large panels: each one passes over the whole Hessian once.
    """
    waiting: list[Rows] = []
    count = 0
    for array in arrays:
        for span in spans(len(array), PANEL):
            part = array[span]
            if count + len(part) > PANEL:
                yield _join(waiting)
                waiting, count = [], 0
            waiting.append(part)
            count += len(part)
    if count:
        yield _join(waiting)


def _join(parts: list[Rows]) -> F32:
    if len(parts) == 1:
        return np.asarray(parts[0], np.float32)
    return np.concatenate([np.asarray(p, np.float32) for p in parts])
