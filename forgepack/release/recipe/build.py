"""One recipe, five steps: fetch, quantize, emit, verify, bundle; what is up to date by digest is skipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from forgepack import hub
from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.lock import CheckpointLock
from forgepack.artifacts.release_json import RELEASE_FILE
from forgepack.artifacts.target import read_target
from forgepack.artifacts.traces import read_traces
from forgepack.disk.files import make_folder, write_file
from forgepack.emit.package import emit_package
from forgepack.errors import InternalError
from forgepack.facts.files import file_record
from forgepack.quantize.run import quantize
from forgepack.quantize.sources import Sources
from forgepack.release.bundle.inventory import BundleInputs
from forgepack.release.bundle.make import make_bundle
from forgepack.release.recipe.inputs import BuildRecipe, describe_inputs
from forgepack.release.recipe.lock import (
    BuildLock,
    StepRecord,
    describe_output,
    read_build_lock,
    refuse_drift,
    require_lock,
    step_key,
    tool,
    write_build_lock,
)
from forgepack.release.recipe.places import check_places
from forgepack.verify.emission import InputPaths, open_inputs, warnings_of
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Report
from forgepack.verify.inputs.sources import Sources as PairSources
from forgepack.verify.inputs.sources import absolute
from forgepack.verify.open_pair import OpenPair

Outcome = Literal["made", "up to date", "refused"]
STEPS = ("fetch", "quantize", "emit", "verify", "bundle")
REPORT_FILE = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a build takes from outside.

    The hub's settings and effects, listeners for (step, what happens) and for (step, done, total, name), and the form
    of the verification's report.
    """

    settings: hub.HubSettings
    effects: hub.Effects
    say: Callable[[str, str], None]
    advance: Callable[[str, int, int, str], None]
    render: Callable[[Report], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """How each step ended. ``report`` is set when the verification was run; a refused pair is not bundled."""

    outcomes: dict[str, Outcome]
    report: Report | None
    lock: BuildLock

    @property
    def refused(self) -> bool:
        """Whether the verification refused the pair."""
        return "refused" in self.outcomes.values()


def build_release(
    recipe: BuildRecipe, lock_path: Path, *, world: World, locked: bool = False, force: bool = False
) -> BuildResult:
    """Make the release that a recipe describes, and write ``lock_path`` with every input's digest.

    With ``locked`` nothing may differ from the lock that is there: neither an input nor what a step makes; it is
    not written then. ``force`` replaces an output folder that no earlier build made. Raises the steps' errors,
    IdentityError (``locked``) for drift, UsageError for ``locked`` without a lock.
    """
    old = read_build_lock(lock_path)
    if locked:
        require_lock(old, lock_path)
    return _Build(recipe, lock_path, old, world=world, locked=locked, force=force).run()


class _Build:
    def __init__(
        self, recipe: BuildRecipe, lock_path: Path, old: BuildLock | None, *, world: World, locked: bool, force: bool
    ) -> None:
        self.recipe = recipe
        self.lock_path = lock_path
        self.old = old
        self.world = world
        self.locked = locked
        self.force = force
        self.steps: dict[str, StepRecord] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.report: Report | None = None

    def run(self) -> BuildResult:
        """Run the steps in their order, the lock last."""
        recipe = self.recipe
        check_places(recipe, force=self.force, ours=self._ours())
        make_folder(recipe.work, parents=True)
        inputs = describe_inputs(recipe, self._fetch())
        if self.locked and self.old is not None:
            found = {**inputs, "tool": tool()}
            refuse_drift(self.old.inputs, found, what="inputs are", where=self.lock_path)
        options = inputs["options"]
        sources = {key: inputs[key] for key in ("profile", "checkpoint", "traces", "held_out", "target")}
        quant = self._step("quantize", recipe.quant, step_key(sources, options["quantize"]), self._quantize)
        package = step_key(quant, inputs["checkpoint"], inputs["target"], inputs["profile"], options["emit"])
        drafter = self._step("emit", recipe.drafter, package, self._emit)
        pair = [drafter, quant, inputs["checkpoint"], inputs["target"], inputs["profile"]]
        judged = [options["verify"], *([] if inputs["given"] is None else [inputs["given"]])]
        self._step("verify", recipe.reports, step_key(*pair, *judged), self._verify)
        if "refused" not in self.outcomes.values():
            release = step_key(drafter, inputs["target"], inputs["documents"], inputs["profile"], options["bundle"])
            self._step("bundle", recipe.output, release, self._bundle)
        return self._finish(inputs)

    def _finish(self, inputs: dict[str, Any]) -> BuildResult:
        lock = BuildLock(inputs=inputs, steps=self.steps)
        result = BuildResult(outcomes=self.outcomes, report=self.report, lock=lock)
        if not self.locked and not result.refused:
            write_build_lock(self.lock_path, lock)
        return result

    def _fetch(self) -> CheckpointLock:
        self.world.say("fetch", f"{self.recipe.profile.hub.repo} at {self.recipe.profile.hub.commit}")
        request = hub.FetchRequest(profile=self.recipe.profile, out=self.recipe.checkpoint)
        if self.recipe.offline:
            report = hub.verify_checkpoint(request, self.world.effects)
        else:
            make_folder(self.recipe.checkpoint.parent, parents=True)
            report = hub.fetch_checkpoint(request, settings=self.world.settings, effects=self.world.effects)
        kept = all(file.action in ("kept", "verified") for file in report.files)
        self.outcomes["fetch"] = "up to date" if kept else "made"
        if report.lock is None:
            raise InternalError("a fetch ended without a lock", where=str(self.recipe.checkpoint))
        return report.lock

    def _step(self, name: str, out: Path, key: str, make: Callable[[], Outcome]) -> dict[str, Any]:
        """Make a step's output unless it is up to date, and return what is there by digest."""
        record = self.old.steps.get(name) if self.old is not None else None
        files = describe_output(out)
        if record is not None and record.key == key and record.files == files:
            self.world.say(name, "up to date")
            self.outcomes[name] = "up to date"
        else:
            self.world.advance(name, 0, 0, "")
            self.outcomes[name] = make()
            files = describe_output(out)
            if self.locked and record is not None and self.outcomes[name] != "refused":
                refuse_drift(record.files, files, what=f"what {name} makes is", where=out)
        self.steps[name] = StepRecord(key=key, files=files)
        return files

    def _quantize(self) -> Outcome:
        recipe = self.recipe
        geometry = recipe.profile.geometry
        sources = Sources(
            checkpoint=read_checkpoint(recipe.checkpoint, recipe.profile),
            target=read_target(recipe.target),
            traces=read_traces(recipe.traces, geometry),
            held_out=None if recipe.held_out is None else read_traces(recipe.held_out, geometry),
        )
        options, advance = replace(recipe.quantize, force=True), self.world.advance
        quantize(
            sources,
            recipe.quant,
            profile=recipe.profile,
            options=options,
            progress=lambda now: advance("quantize", now.done, now.total, now.name),
        )
        return "made"

    def _emit(self) -> Outcome:
        recipe = self.recipe
        paths = InputPaths(quant=recipe.quant, checkpoint=recipe.checkpoint, target=recipe.target, root=recipe.root)
        inputs, report = open_inputs(paths, recipe.drafter, recipe.profile)
        for line in warnings_of(report):
            self.world.say("emit", line)
        result = emit_package(
            inputs,
            recipe.drafter,
            profile=recipe.profile,
            force=True,
            created=recipe.created,
            report=lambda now: self.world.advance("emit", now.done, now.total, now.step),
        )
        for line in result.warnings:
            self.world.say("emit", f"warning: {line}")
        return "made"

    def _verify(self) -> Outcome:
        recipe = self.recipe
        sources = PairSources(
            drafter=absolute(recipe.drafter),
            target=recipe.target,
            root=absolute(recipe.root),
            quant=absolute(recipe.quant),
            checkpoint=absolute(recipe.checkpoint),
            traces=None,
            named={
                "drafter": "drafter",
                "quant": "quant",
                "checkpoint": "checkpoint",
                "target": "target",
                **{role: path.name for role, path in recipe.files.items()},
            },
            extra_files=recipe.extra_files,
        )
        pair = OpenPair(sources, recipe.profile, recipe.depth, seconds=recipe.seconds)
        self.report = replace(verify(pair, strict=recipe.strict, policy=recipe.policy), options=recipe.options)
        make_folder(recipe.reports)
        write_file(recipe.reports / REPORT_FILE, self.world.render(self.report))
        return "made" if self.report.verdict == "pass" else "refused"

    def _bundle(self) -> Outcome:
        recipe = self.recipe
        inputs = BundleInputs(
            drafter=recipe.drafter,
            target=recipe.target,
            root=recipe.root,
            upstream=recipe.upstream,
            documents=recipe.documents,
            export=recipe.export,
        )
        make_folder(recipe.output.parent, parents=True)
        make_bundle(
            inputs,
            recipe.output,
            profile=recipe.profile,
            force=self.force or self._ours(),
            listener=lambda now: self.world.advance("bundle", now.done, now.total, now.path),
        )
        return "made"

    def _ours(self) -> bool:
        """Whether an earlier build of this lock made what is in the output folder."""
        record = None if self.old is None else self.old.steps.get("bundle")
        made = record.files.get(RELEASE_FILE) if record is not None else None
        release = self.recipe.output / RELEASE_FILE
        return made is not None and release.is_file() and file_record(release) == made
