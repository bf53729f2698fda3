"""Errors of a rounding: squared outputs of W - Q on calibration and held-out rows, and of W, relative in the end.

Cost, in multiply-adds of an (m, n) matrix: W's own outputs cost nothing, since the forward pass has them; the error
on calibration rows is a quadratic form in H, m·n²/2, or GPTQ's own loss; the error on N held-out rows is a quadratic
form in their own sum XᵀX where n < 2N, else N products, m·n·N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool
from forgepack.quantize.hessian import new_gram, quadratic, squared_outputs

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Panels = Callable[[], Iterable[F32]]

KINDS = ("calibration", "held_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The held-out rows of a group of matrices: ``panels`` yields them, ``total`` is XᵀX where that is cheaper."""

    panels: Panels
    rows: int
    total: F64 | None

    def squares(self, difference: F32, scale: F32, pool: Pool) -> float:
        """Return ‖scale·difference·x‖² summed over all rows x; ``difference`` may be overwritten."""
        if self.total is not None:
            return float(np.square(scale, dtype=np.float64) @ quadratic(difference, self.total, pool))
        difference *= scale[:, None]
        return squared_outputs(difference, self.panels(), pool)


def hold_out(panels: Panels, pool: Pool) -> HeldOut:
    """Count held-out rows, and sum them up where a quadratic form costs less than the products."""
    shapes = [panel.shape for panel in panels()]
    rows = sum(shape[0] for shape in shapes)
    if not shapes or shapes[0][1] >= 2 * rows:
        return HeldOut(panels=panels, rows=rows, total=None)
    gram = new_gram(shapes[0][1])
    for panel in panels():
        gram.add(panel, pool)
    return HeldOut(panels=panels, rows=rows, total=gram.total)


@dataclass(slots=True, kw_only=True)
class Outputs:
    """‖Wx‖² of each matrix over calibration and held-out rows, gathered from the forward pass.

    ``add`` may be called from any thread: parts are summed in the order of ``place``, whatever the order of calls.
    """

    _parts: dict[str, dict[tuple[int, int], tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, place: tuple[int, int], product: F32, *, calibration: int) -> None:
        """Add products (rows, outputs), the first ``calibration`` rows of them calibration rows."""
        squares = np.einsum("ij,ij->i", product, product).astype(np.float64)
        both = float(squares[:calibration].sum()), float(squares[calibration:].sum())
        self._parts.setdefault(name, {})[place] = both

    def squares(self, name: str) -> dict[str, float]:
        """Return the sums by kind of rows."""
        parts = [both for _, both in sorted(self._parts[name].items())]
        return {kind: sum(both[n] for both in parts) for n, kind in enumerate(KINDS)}


def finish_report(name: str, report: Mapping[str, Any], outputs: Outputs) -> dict[str, Any]:
    """Return a matrix's report with its squared errors turned into relative ones."""
    out = {key: value for key, value in report.items() if key != "squares"}
    whole = outputs.squares(name)
    out["error"] = {
        kind: {how: relative(part, whole[kind], name) for how, part in report["squares"][kind].items()}
        for kind in KINDS
    }
    return out


def relative(part: float, whole: float, name: str) -> float:
    """Return sqrt(part / whole), 0 where there is no output at all; NumericsError on overflow."""
    require_finite(name, part, whole)
    return float(np.sqrt(part / whole)) if whole > 0 else 0.0


def require_finite(name: str, *values: float) -> None:
    """Raise NumericsError where a sum over a matrix's outputs is not finite."""
    if not np.isfinite(values).all():
        raise NumericsError("activations or outputs of a matrix overflow", where=name, code="nonfinite")
