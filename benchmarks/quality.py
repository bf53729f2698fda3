"""Compare the tool's layer errors with the plain recipe's on the same matrices, Hessians and rows.

``python -m benchmarks.quality CHECKPOINT --traces T --held-out T2 --target DIR --profile P`` runs the tool's own
calibration, hands each Hessian and each group's held-out rows to both, and prints each matrix's relative output
error ‖(W-Q)X‖/‖WX‖ on calibration and held-out rows. ``--only fc.weight layers.0.`` stops after those: at full size
the plain recipe takes hours for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from benchmarks.plain_recipe import plain_factor, plain_gptq
from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.target import locate_target, read_target
from forgepack.artifacts.traces import read_traces
from forgepack.profile import load_profile
from forgepack.quantize import run as quantize_run
from forgepack.quantize.matrix import Inputs, MatrixQuantizer
from forgepack.quantize.recipe import Options
from forgepack.quantize.result import MatrixResult
from forgepack.quantize.sources import Sources

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
_ROWS = 1024


class Enough(Exception):  # noqa: N818  (no error: the chosen matrices are done)
    """All chosen matrices have been compared."""


@dataclass(slots=True)
class Comparison:
    """Errors by matrix: ``{"calibration": (plain, tool), "held_out": (plain, tool)}``."""

    only: tuple[str, ...]
    tell: Callable[[str], None] = lambda _: None
    matrices: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def chosen(self, name: str) -> bool:
        """Say whether a matrix is to be compared."""
        return not self.only or name.startswith(self.only)

    def quantizer(self) -> type[MatrixQuantizer]:
        """Return the tool's quantizer, made to compare each result before it yields it."""
        comparison = self

        class Comparing(MatrixQuantizer):
            __slots__ = ()

            def lut4(self, names: tuple[str, ...], inputs: Inputs) -> Iterable[MatrixResult]:
                if comparison.matrices and not any(map(comparison.chosen, names)):
                    raise Enough
                weights = {name: self.load(name) for name in names}
                plain = _plain(weights, inputs, comparison)
                for result in MatrixQuantizer.lut4(self, names, inputs):
                    comparison.add(result, weights[result.name], plain.get(result.name), inputs)
                    yield result

        return Comparing

    def add(self, result: MatrixResult, weight: F32, plain: dict[str, float] | None, inputs: Inputs) -> None:
        """Note one matrix; the tool's error on calibration rows is its own report's, checked by the tests."""
        if plain is None:
            return
        squares = result.report["squares"]["calibration"]["quantized"]
        tool = {
            "calibration": float(np.sqrt(squares / (inputs.rows * plain["energy"]))),
            "held_out": held_out_error(weight, weight - dequantize(result), inputs),
        }
        self.matrices[result.name] = {kind: (plain[kind], tool[kind]) for kind in tool}
        pair = self.matrices[result.name]["held_out"]
        self.tell(f"{result.name}: held-out error {pair[0]:.5f} plain, {pair[1]:.5f} tool")

    def summary(self) -> dict[str, Any]:
        """Return all errors, their means, and the share of matrices on which the tool's is at most the plain one."""
        out: dict[str, Any] = {"matrices": self.matrices, "totals": {}}
        for kind in ("calibration", "held_out"):
            pairs = np.array([m[kind] for m in self.matrices.values()])
            plain, tool = pairs.mean(axis=0)
            share = float(np.mean(pairs[:, 1] <= pairs[:, 0]))
            totals = {
                "plain": float(plain),
                "tool": float(tool),
                "ratio": float(tool / plain),
                "at_most_plain": share,
            }
            out["totals"][kind] = totals
        return out


def _plain(weights: dict[str, F32], inputs: Inputs, comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return the plain recipe's errors of the chosen matrices, before the tool destroys the Hessian."""
    if not any(map(comparison.chosen, weights)):
        return {}
    factor, out = plain_factor(inputs.hessian), {}
    for name in filter(comparison.chosen, weights):
        difference = weights[name] - plain_gptq(weights[name], factor)
        whole = energy(weights[name], inputs.hessian)
        out[name] = {
            "energy": whole,
            "calibration": float(np.sqrt(energy(difference, inputs.hessian) / whole)),
            "held_out": held_out_error(weights[name], difference, inputs),
        }
    return out


def dequantize(result: MatrixResult) -> F32:
    """Return a LUT4 result's weights."""
    lut, scale = (result.tensors[key].astype(np.float32) for key in ("lut", "scale"))
    values: F32 = lut.reshape(-1)[result.tensors["idx"].astype(np.intp)]
    return values * scale[:, None]


def energy(rows: F32, H: F64) -> float:
    """Return Σ d·H·dᵀ over all rows d."""
    total = 0.0
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS].astype(np.float64)
        total += float(np.einsum("ij,ij->", part @ H, part))
    return total


def held_out_error(weight: F32, difference: F32, inputs: Inputs) -> float:
    """Return ‖difference·X‖/‖weight·X‖ over the held-out rows."""
    sums = np.zeros(2)
    for panel in inputs.held_out.panels():
        for n, matrix in enumerate((difference, weight)):
            sums[n] += sum(
                _squares(matrix[start : start + _ROWS] @ panel.T) for start in range(0, len(matrix), _ROWS)
            )
    return float(np.sqrt(sums[0] / sums[1])) if sums[1] else 0.0


def _squares(values: F32) -> float:
    return float(np.einsum("ij,ij->", values, values, dtype=np.float64))


def compare(sources: Sources, profile_name: str, comparison: Comparison, *, workers: int) -> dict[str, Any]:
    """Quantize with both recipes and return the summary; nothing is kept on disk."""
    with (
        mock.patch.object(quantize_run, "MatrixQuantizer", comparison.quantizer()),
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(Enough),
    ):
        options = Options(threads=workers)
        quantize_run.quantize(sources, Path(folder) / "quant", profile=load_profile(profile_name), options=options)
    return comparison.summary()


def open_sources(checkpoint: Path, traces: Path, held_out: Path, *, target: Path, profile_name: str) -> Sources:
    """Read all inputs."""
    profile = load_profile(profile_name)
    return Sources(
        checkpoint=read_checkpoint(checkpoint, profile),
        target=read_target(locate_target(target)),
        traces=read_traces(traces, profile.geometry),
        held_out=read_traces(held_out, profile.geometry),
    )


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """Yield the comparison as text."""
    yield f"{'held-out relative output error':<48} {'plain':>8} {'tool':>8} {'ratio':>7}"
    for name, errors in sorted(summary["matrices"].items()):
        plain, tool = errors["held_out"]
        yield f"{name:<48} {plain:>8.5f} {tool:>8.5f} {tool / plain if plain else 1:>7.4f}"
    for kind, total in summary["totals"].items():
        figures = f"{total['plain']:>8.5f} {total['tool']:>8.5f} {total['ratio']:>7.4f}"
        yield f"{'mean, ' + kind:<48} {figures}  at most plain on {total['at_most_plain']:.0%}"


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    for name in ("--traces", "--held-out", "--target"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="PREFIX")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    comparison = Comparison(only=tuple(args.only), tell=lambda text: print(text, file=sys.stderr, flush=True))
    sources = open_sources(args.checkpoint, args.traces, args.held_out, target=args.target, profile_name=args.profile)
    summary = compare(sources, args.profile, comparison, workers=args.workers)
    if args.json is not None:
        args.json.write_text(json.dumps(summary, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print("\n".join(lines(summary)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
