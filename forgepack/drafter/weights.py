"""Where a drafter's weights come from: one protocol, so that every variant runs through the same forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.checkpoint import Checkpoint
from forgepack.artifacts.quant import Quant
from forgepack.errors import MissingError
from forgepack.geometry import Geometry

F32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]

HIDDEN_PROJECTION = "candidate_selector.hidden_projection.weight"


class DrafterWeights(Protocol):
    """Tensors by the checkpoint's names, as float32; a matrix is (outputs, inputs).

    Layer 0's input norm may be (block, hidden): one gain a row, where the mask scale is part of the weights.
    """

    @property
    def geometry(self) -> Geometry:
        """The shapes that all tensors have."""
        ...

    def tensor(self, name: str) -> F32:
        """Return one whole tensor."""
        ...

    def rows(self, name: str, ids: Ids) -> F32:
        """Return the rows ``ids`` of a matrix without loading the rest: shape (*ids.shape, columns)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWeights:
    """The unquantized drafter: BF16 tensors of a checkpoint."""

    checkpoint: Checkpoint
    geometry: Geometry

    def tensor(self, name: str) -> F32:
        """Return one tensor; NumericsError when it holds a non-finite value."""
        return self.checkpoint.tensor(name)

    def rows(self, name: str, ids: Ids) -> F32:
        """Return rows of a BF16 matrix."""
        return np.asarray(self.checkpoint.weights.array(name)[ids], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantWeights:
    """A quantized drafter: LUT4 and INT8 matrices dequantized, all else from the checkpoint it was made of.

    ``hidden_projection`` is rounded to float16, as the package holds it.
    """

    quant: Quant
    base: DrafterWeights

    @property
    def geometry(self) -> Geometry:
        """The base's shapes."""
        return self.base.geometry

    def tensor(self, name: str) -> F32:
        """Return a dequantized matrix, or the checkpoint's tensor where that one is not quantized."""
        if name in self.quant.matrices:
            return self.quant.dequantize(name)
        values = self.base.tensor(name)
        return values.astype(np.float16).astype(np.float32) if name == HIDDEN_PROJECTION else values

    def rows(self, name: str, ids: Ids) -> F32:
        """Return rows of a matrix that is not quantized (the codebooks)."""
        return self.base.rows(name, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWeights:
    """A drafter whose tensors are in memory: constants read back from a package, or synthetic ones."""

    geometry: Geometry
    tensors: Mapping[str, npt.NDArray[np.generic]]

    def tensor(self, name: str) -> F32:
        """Return one tensor as float32; MissingError when there is none of that name."""
        if name not in self.tensors:
            raise MissingError("the drafter lacks a tensor", where=name, code="tensor-missing")
        return np.asarray(self.tensors[name], np.float32)

    def rows(self, name: str, ids: Ids) -> F32:
        """Return rows of a matrix."""
        return np.asarray(self.tensors[name][ids], np.float32)
