"""One run of the demo, shared by the tests that look at it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forgepack.miniature.data import PROFILE, find_miniature
from forgepack.miniature.demo import DemoResult, run_demo
from forgepack.miniature.scene import Scene
from forgepack.profile import load_profile


@dataclass
class Recorder:
    """An observer that keeps what it was told."""

    events: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, stage: str) -> None:
        self.events.append((stage, "begin"))

    def note(self, stage: str, text: str) -> None:
        assert text
        self.events.append((stage, "note"))

    def end(self, stage: str, *, ok: bool, seconds: float, summary: str) -> None:
        assert seconds >= 0
        assert summary
        self.events.append((stage, "end" if ok else "failed"))


@dataclass(frozen=True)
class Show:
    """A finished demo: its result, what the observer saw, and the folder with all that was built."""

    result: DemoResult
    recorder: Recorder
    scene: Scene


@pytest.fixture(scope="session")
def show(tmp_path_factory: pytest.TempPathFactory) -> Show:
    """Run the whole demo once."""
    work: Path = tmp_path_factory.mktemp("demo")
    recorder = Recorder()
    result = run_demo(work, observer=recorder, clock=time.monotonic)
    return Show(
        result=result,
        recorder=recorder,
        scene=Scene(profile=load_profile(PROFILE), miniature=find_miniature(), work=work),
    )
