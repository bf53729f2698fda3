"""Matrices with every kind of row that a checkpoint may hold, quantized by GPTQ, and the two files on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.parallel import open_pool
from forgepack.quantize.factor import ascending_order, factorize
from forgepack.quantize.fidelity import Deviation, Matrix, compare_matrices
from forgepack.quantize.fit import fit_weighted
from forgepack.quantize.gptq import gptq
from forgepack.quantize.hessian import permute
from forgepack.quantize.matrix import _importance

Array = npt.NDArray[Any]
NAME = "m.weight"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounded:
    """A matrix in BF16, and what GPTQ made of it; ``special`` maps a kind of row to its number."""

    weights: Array
    lut: Array
    idx: Array
    scale: Array
    special: dict[str, int]

    def compare(self, folder: Path, *, plain: bool = False) -> list[Deviation]:
        """Write both files and compare them."""
        tensors = {
            f"{NAME}.lut": ("F16", self.lut),
            f"{NAME}.idx": ("U8", self.idx),
            f"{NAME}.scale": ("F16", self.scale),
        }
        write_tensors(folder / "q.safetensors", tensors)
        write_tensors(folder / "c.safetensors", {NAME: ("BF16", self.weights)})
        quant, source = (read_safetensors(folder / f"{name}.safetensors") for name in "qc")
        return list(compare_matrices([Matrix(name=NAME, quant=quant, checkpoint=source, plain=plain)]))

    def wrong(self, folder: Path) -> set[str]:
        """Return the suffixes of the tensors that are wrong."""
        return {one.tensor.rpartition(".")[2] for one in self.compare(folder) if not one.loose}

    def changed(self, **arrays: Any) -> Rounded:
        """Return a copy with other arrays."""
        return replace(self, **arrays)


def write_tensors(path: Path, tensors: dict[str, tuple[str, Array]]) -> None:
    """Write a safetensors file of (dtype, array) by name."""
    with SafetensorsWriter(path, {name: (dtype, a.shape) for name, (dtype, a) in tensors.items()}, {}) as out:
        for name, (_, array) in tensors.items():
            out.write(name, array)


def make_rounded(rows: int, columns: int, *, calibration: int, rank: int, seed: int) -> Rounded:
    """Quantize a heavy-tailed matrix with odd rows, on correlated inputs with outlier channels."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    weights *= np.exp(0.35 * rng.standard_normal((rows, 1))) * np.exp(0.45 * rng.standard_normal(columns))
    weights[:, rng.random(columns) < 0.005] *= 5
    special = _odd_rows(weights, rng)
    stored = weights.astype(ml_dtypes.bfloat16)
    spectrum = np.exp(-4 * np.arange(rank) / rank)[:, None]
    inputs = rng.standard_normal((calibration, rank)) @ (rng.standard_normal((rank, columns)) * spectrum)
    inputs += 0.05 * rng.standard_normal(inputs.shape)
    inputs *= np.exp(0.7 * rng.standard_normal(columns))
    inputs[:, rng.random(columns) < 0.01] *= 30
    inputs[:, 5] = 0  # a column that no row feeds
    hessian = inputs.T @ inputs / calibration
    source = stored.astype(np.float32)
    with open_pool(1) as pool:
        order = ascending_order(hessian)
        permute(hessian, order)
        factor = factorize(hessian, damping=0.01, pool=pool, where=NAME)
        lut = fit_weighted(source, _importance(factor, order), where=NAME, pool=pool)
        found = gptq(np.ascontiguousarray(lut.normalise(source)[:, order]), factor, lut, block=128, pool=pool)
    idx = np.empty_like(found.indices)
    idx[:, order] = found.indices
    return Rounded(weights=stored, lut=lut.codebook.reshape(-1, 1), idx=idx, scale=lut.scale, special=special)


def _odd_rows(weights: Array, rng: np.random.Generator) -> dict[str, int]:
    columns = weights.shape[1]
    kinds: dict[str, Array] = {
        "zero": np.zeros(columns),
        "silent": weights[0] * 1e-6,
        "subnormal": weights[0] * 1e-5,
        "large": weights[0] * 100,
        "one value": np.eye(1, columns, 3)[0],
        "constant": np.full(columns, 0.01),
        "sparse": np.where(rng.random(columns) < 0.01, rng.standard_normal(columns), 0),
        "one sign": np.abs(weights[0]),
        "heavy tail": np.asarray(rng.standard_t(1.2, columns)),
    }
    for row, values in enumerate(kinds.values()):
        weights[row] = values
    return {kind: row for row, kind in enumerate(kinds)}
