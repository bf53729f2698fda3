"""A replay from paths to its report: target, traces and drafters opened, walked and described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import require_file
from forgepack.artifacts.target_parts import TargetParts, find_target
from forgepack.errors import UsageError
from forgepack.profile import Profile
from forgepack.release.replay.report import replay_json
from forgepack.release.replay.run import measure, open_all, read_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Which drafters are replayed on which traces; ``against`` is the reference, by default the first drafter.

    ``checkpoint`` is the one that a QUANT was made of; ``mask_scale`` is set for every drafter but packages.
    """

    drafters: tuple[Path, ...]
    target: TargetParts
    traces: Path
    against: Path | None = None
    workload: str | None = None
    checkpoint: Path | None = None
    mask_scale: float | None = None
    threads: int = 1

    def places(self) -> dict[str, Path | None]:
        """Return role -> path of everything that is read: no output may stand there."""
        named = (self.target.root, self.target.model, self.target.build, self.target.export)
        return {
            **{f"a drafter ({number})": path for number, path in enumerate(self.drafters, 1)},
            **{f"the target ({number})": path for number, path in enumerate(named, 1)},
            "the traces": self.traces,
            "the reference": self.against,
            "the checkpoint": self.checkpoint,
        }


def check_request(request: ReplayRequest) -> None:
    """Raise UsageError for what would fail after the work: no drafter, missing traces, a blank workload, a scale."""
    require_file(request.traces)
    if not request.drafters:
        raise UsageError("there is nothing to replay", expected="at least one drafter", found="none")
    if request.workload is not None and not request.workload.strip():
        raise UsageError("--workload takes a name", found="a blank name")
    if request.mask_scale is not None and not 0 < request.mask_scale <= 1:
        found = str(request.mask_scale)
        raise UsageError("the mask scale is out of range", expected="over 0, at most 1", found=found)


def run_replay(request: ReplayRequest, profile: Profile, *, say: Callable[[str], None]) -> dict[str, Any]:
    """Replay every drafter and return the report as schemas/replay.schema.json describes it.

    ``say`` gets a line for each part of the target that the traces were not recorded with, and for each drafter.
    Raises UsageError for what is named wrongly, and the readers' errors of target, traces and drafters.
    """
    check_request(request)
    inputs = read_inputs(find_target(request.target), request.traces, profile, workload=request.workload)
    for part in inputs.foreign:
        say(f"note: {inputs.traces.path} was recorded with another {part} than the target's")
    reference = () if request.against is None else (request.against,)
    with open_all(
        [*reference, *request.drafters], profile, checkpoint=request.checkpoint, mask_scale=request.mask_scale
    ) as opened:
        found = measure(inputs, opened, threads=request.threads, note=lambda name: say(f"replay: {name}"))
        return replay_json(inputs.run(opened, found))
