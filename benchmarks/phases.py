"""Run forgepack's command line with its phases timed: ``python -m benchmarks.phases OUT.json quantize ...``.

The tool itself holds no clock. Here the functions that bound a phase are wrapped before the command line starts; a
phase's time is exclusive of the phases inside it. A name that has moved is an error, not a silent gap. Only functions
that run in the main thread are wrapped.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import memory_of

REST = "rest"
# (phase, module, attribute): a function is wrapped where it is looked up.
HOOKS: tuple[tuple[str, str, str], ...] = (
    ("identify", "forgepack.artifacts.checkpoint", "require_locked"),
    ("identify", "forgepack.quantize.run", "examine"),
    ("read", "forgepack.drafter.weights", "CheckpointWeights.tensor"),
    ("read", "forgepack.artifacts.traces", "TraceSet.features"),
    ("forward", "forgepack.quantize.run", "fuse"),
    ("forward", "forgepack.drafter.forward", "Forward.hidden"),
    ("hessians", "forgepack.quantize.hessian", "Gram.add"),
    ("hessians", "forgepack.quantize.hessian", "Gram.mirror"),
    ("factorization", "forgepack.quantize.matrix", "permute"),
    ("factorization", "forgepack.quantize.matrix", "factorize"),
    ("codebooks", "forgepack.quantize.matrix", "fit_lut4"),
    ("codebooks", "forgepack.quantize.matrix", "fit_weighted"),
    ("gptq", "forgepack.quantize.matrix", "gptq"),
    ("calibration_errors", "forgepack.quantize.matrix", "quadratic"),
    ("int8_errors", "forgepack.quantize.matrix", "MatrixQuantizer.int8"),
    ("held_out", "forgepack.quantize.calibrate", "hold_out"),
    ("held_out", "forgepack.quantize.judge", "HeldOut.squares"),
    ("write", "forgepack.quantize.result", "Parts.save"),
    ("write", "forgepack.quantize.run", "_assemble"),
    ("write", "forgepack.quantize.run", "_report"),
    ("write", "forgepack.quantize.run", "publish"),
)


@dataclass(slots=True)
class Phase:
    """Exclusive seconds, CPU seconds of all threads, calls, and peak anonymous bytes seen while it was current."""

    seconds: float = 0.0
    cpu: float = 0.0
    calls: int = 0
    anonymous: int = 0


@dataclass(slots=True)
class Recorder:
    """Attributes time to the innermost phase that is open."""

    phases: dict[str, Phase] = field(default_factory=lambda: {REST: Phase(calls=1)})
    _stack: list[str] = field(default_factory=lambda: [REST])
    _mark: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))
    _stop: threading.Event = field(default_factory=threading.Event)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` with its time counted as phase ``name``."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._settle()
            self.phases.setdefault(name, Phase()).calls += 1
            self._stack.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                self._settle()
                self._stack.pop()

        return wrapped

    def install(self) -> None:
        """Wrap all hooks; AttributeError when one has moved."""
        for phase, module, attribute in HOOKS:
            owner: Any = importlib.import_module(module)
            *parents, last = attribute.split(".")
            for parent in parents:
                owner = getattr(owner, parent)
            setattr(owner, last, self.wrap(phase, getattr(owner, last)))

    def sample(self) -> None:
        """Note the anonymous memory of this process in the current phase, until ``finish``."""
        while not self._stop.wait(0.05):
            phase = self.phases[self._stack[-1]]
            phase.anonymous = max(phase.anonymous, memory_of("self")[1])

    def finish(self) -> dict[str, Any]:
        """Return all phases as a JSON object."""
        self._stop.set()
        self._settle()
        return {
            name: {"seconds": p.seconds, "cpu": p.cpu, "calls": p.calls, "anonymous": p.anonymous}
            for name, p in self.phases.items()
        }

    def _settle(self) -> None:
        now = (time.perf_counter(), time.process_time())
        phase = self.phases[self._stack[-1]]
        phase.seconds += now[0] - self._mark[0]
        phase.cpu += now[1] - self._mark[1]
        self._mark = now


def main() -> int:
    """Run the command line with all phases recorded into the file that the first argument names."""
    out, arguments = Path(sys.argv[1]), sys.argv[2:]
    recorder = Recorder()
    recorder.install()
    threading.Thread(target=recorder.sample, daemon=True).start()
    from forgepack.cli.main import run

    code = run(arguments)
    out.write_text(json.dumps(recorder.finish(), indent=2, sort_keys=True), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
