"""The recipe of a build: where everything is, and what the steps may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgepack.artifacts.lock import CheckpointLock
from forgepack.artifacts.release_json import DOCUMENTS, MODEL_FILES
from forgepack.artifacts.target import TargetPaths
from forgepack.errors import UsageError
from forgepack.facts.files import file_record, folder_record
from forgepack.profile import Profile, Upstream
from forgepack.quantize.recipe import Options, calibration_scale, deployed_scale
from forgepack.verify.findings.report import Chosen, Depth
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.policy.acceptance import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecipe:
    """One release: profile, inputs, output, and the steps' options. ``work`` keeps what is between the steps.

    ``root`` is the target's release root, where its licence is; ``created`` the only date in the package.
    ``offline`` takes the checkpoint as its lock says, without a hub: also one that was adopted.

    ``policy`` and ``given`` are waivers, attestations and withdrawn digests as read; ``files`` are theirs, by role.
    The verification's report lists ``options``. ``seconds`` bounds each reading or run of an asset.
    """

    profile: Profile
    checkpoint: Path
    traces: Path
    held_out: Path | None
    target: TargetPaths
    root: Path | None
    upstream: Upstream
    output: Path
    work: Path
    documents: Path | None
    export: bool
    quantize: Options
    depth: Depth
    strict: bool
    created: int
    offline: bool = False
    seconds: float = 600.0
    policy: Policy = field(default_factory=Policy)
    extra_files: ExtraFiles = field(default_factory=ExtraFiles)
    files: Mapping[str, Path] = field(default_factory=dict)
    options: tuple[Chosen, ...] = ()

    @property
    def quant(self) -> Path:
        """Where the quantized drafter is kept."""
        return self.work / "quant"

    @property
    def drafter(self) -> Path:
        """Where the package is kept."""
        return self.work / "drafter"

    @property
    def reports(self) -> Path:
        """Where the verification's report is kept."""
        return self.work / "verify"


def check_commit(commit: str | None, profile: Profile) -> None:
    """Raise UsageError when a recipe names another commit than its profile pins: one of both is out of date."""
    if commit is not None and commit != profile.hub.commit:
        raise UsageError(
            "the recipe names another commit than its profile",
            where="commit",
            expected=f"{profile.hub.commit}, pinned by {profile.name}",
            found=commit[:80],
            hint="a new commit is a new profile: name a profile file that pins it, or leave commit out",
        )


def describe_inputs(recipe: BuildRecipe, lock: CheckpointLock) -> dict[str, Any]:
    """Return every input by digest, and the options that results depend on; every byte of them is read."""
    return {
        "profile": {"name": recipe.profile.name, "sha256": recipe.profile.digest},
        "checkpoint": {
            "repo": lock.repo,
            "commit": lock.commit,
            "files": {file.path: {"bytes": file.bytes, "sha256": file.sha256} for file in lock.files},
        },
        "traces": file_record(recipe.traces),
        "held_out": None if recipe.held_out is None else file_record(recipe.held_out),
        "target": describe_target_files(recipe),
        "documents": _describe_documents(recipe),
        "given": {role: file_record(path) for role, path in sorted(recipe.files.items())} or None,
        "options": describe_options(recipe),
    }


def describe_target_files(recipe: BuildRecipe) -> dict[str, Any]:
    """Return the files of a target that a release can hold: the allowed ones of model/, all of build and export."""
    paths = recipe.target
    model = {name: paths.model / name for name in MODEL_FILES}
    files = {f"model/{name}": file_record(path) for name, path in model.items() if path.is_file()}
    files |= folder_record(paths.build, "coreai")
    return files if paths.export is None else files | folder_record(paths.export, "export")


def _describe_documents(recipe: BuildRecipe) -> dict[str, Any]:
    """Return the documents that are supplied, and the target's texts that are taken along."""
    found = {}
    for role, folder in (("supplied", recipe.documents), ("target", recipe.root)):
        names = DOCUMENTS if role == "supplied" else ("LICENSE", "NOTICE")
        for name in names:
            if folder is not None and (folder / name).is_file():
                found[f"{role}/{name}"] = file_record(folder / name)
    return found


def describe_options(recipe: BuildRecipe) -> dict[str, Mapping[str, Any]]:
    """Return the options of each step that change what it makes; threads do not."""
    options, profile = recipe.quantize, recipe.profile
    return {
        "quantize": {
            "method": options.method,
            "mask_scale": calibration_scale(options, profile),
            "deploy_mask_scale": deployed_scale(options, profile),
        },
        "emit": {"created": recipe.created},
        "verify": {"depth": recipe.depth.label, "strict": recipe.strict},
        "bundle": {
            "export": recipe.export,
            "upstream": {"id": recipe.upstream.id, "revision": recipe.upstream.revision},
        },
    }
