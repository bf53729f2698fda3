"""The demo: all stages in order, observed, and its result as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forgepack.errors import ForgepackError
from forgepack.miniature.data import PROFILE, find_miniature
from forgepack.miniature.scene import Scene
from forgepack.miniature.stages import STAGES, Findings
from forgepack.profile import load_profile


class Observer(Protocol):
    """What the demo reports while it runs."""

    def begin(self, stage: str) -> None:
        """Say that a stage has begun."""
        ...

    def note(self, stage: str, text: str) -> None:
        """Say what a stage is doing."""
        ...

    def end(self, stage: str, *, ok: bool, seconds: float, summary: str) -> None:
        """Say that a stage has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """One stage's outcome and its wall time in seconds."""

    name: str
    ok: bool
    seconds: float
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """All stages that ran, what they found, and the error that ended them early, if any."""

    stages: tuple[StageResult, ...]
    findings: Findings
    error: ForgepackError | None

    def as_json(self) -> dict[str, Any]:
        """Return the demo's result in its documented form."""
        found = self.findings
        report = found.report
        return {
            "stages": [{"name": s.name, "ok": s.ok, "seconds": round(s.seconds, 2)} for s in self.stages],
            "package": found.package,
            "verify": {
                "verdict": report.verdict if report else "error",
                "checks": len(report.checks) if report else 0,
            },
            "sabotage": [{"name": r.name, "refused": r.refused, "rules": list(r.rules)} for r in found.refusals],
            "acceptance": {name: round(v.acceptance.mean, 4) for name, v in found.variants.items()},
            "agreement": {name: round(v.agreement, 4) for name, v in found.variants.items() if name != "unquantized"},
            "layer_error": {name: round(value, 6) for name, value in found.layer_error.items()},
        }


def run_demo(work: Path, *, observer: Observer, clock: Callable[[], float], threads: int = 2) -> DemoResult:
    """Run every stage in the folder ``work``; a stage that fails ends the demo, and the result names it."""
    scene = Scene(profile=load_profile(PROFILE), miniature=find_miniature(), work=work, threads=threads)
    findings = Findings()
    done: list[StageResult] = []
    for name, stage in STAGES:
        observer.begin(name)
        start = clock()
        error: ForgepackError | None = None
        try:
            summary = stage(scene, findings, lambda text, name=name: observer.note(name, text))  # type: ignore[misc]
        except ForgepackError as err:
            error, summary = err, err.what
        result = StageResult(name=name, ok=error is None, seconds=clock() - start, summary=summary)
        done.append(result)
        observer.end(name, ok=result.ok, seconds=result.seconds, summary=summary)
        if error is not None:
            return DemoResult(stages=tuple(done), findings=findings, error=error)
    return DemoResult(stages=tuple(done), findings=findings, error=None)
