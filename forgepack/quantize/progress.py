"""How far a quantization is: matrices finished, and operations done of those that this run has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forgepack.quantize.steps import FORWARD, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A finished matrix: ``done`` of ``total``, ``resumed`` when an earlier run had finished it.

    ``following`` is the matrix that is worked at next, "" after the last. ``operations`` were done by this run when
    the matrix was finished, of ``operations_total`` (floating-point operations, as ``steps`` counts them).
    """

    name: str
    done: int
    total: int
    resumed: bool
    following: str
    operations: float
    operations_total: float


class Counter:
    """Counts matrices as they are finished; ``note`` may get one twice, which counts once.

    What matrices of a step share is counted with its first. A matrix that an earlier run had ``finished`` costs this
    one its part of the forward pass alone.
    """

    def __init__(
        self, *, steps: Sequence[Step], finished: Iterable[str], tell: Callable[[Progress], None] | None
    ) -> None:
        self._finished = frozenset(finished)
        self._tell = tell
        self._left = {name: cost for step in steps for name, cost in self._costs(step).items()}
        self._count = len(self._left)
        self._operations = sum(self._left.values())

    def _costs(self, step: Step) -> dict[str, float]:
        """Share a step's operations out to its matrices: the forward pass by size, the rest to the first."""
        sizes = {name: rows * columns for name, (rows, columns) in step.matrices.items()}
        costs = {name: step.operations[FORWARD] * size / sum(sizes.values()) for name, size in sizes.items()}
        to_do = [name for name in sizes if name not in self._finished]
        if to_do:
            costs[to_do[0]] += step.total - step.operations[FORWARD]
        return costs

    def note(self, name: str) -> None:
        """Count a matrix as finished, and report it."""
        if self._left.pop(name, None) is None or self._tell is None:
            return
        self._tell(
            Progress(
                name=name,
                done=self._count - len(self._left),
                total=self._count,
                resumed=name in self._finished,
                following=next(iter(self._left), ""),
                operations=self._operations - sum(self._left.values()),
                operations_total=self._operations,
            )
        )
