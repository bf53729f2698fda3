"""Emission: judge the inputs, compute the constants, author the asset, describe it all, publish in one step."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgepack.artifacts.checkpoint import CONFIG_FILE, Checkpoint
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.artifacts.state import require_unchanged
from forgepack.artifacts.tree import fsync_folder, walk
from forgepack.canonical import dump_canonical
from forgepack.coreai_backend.asset_writer import FIXED_DATE
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.constants import payload_bytes
from forgepack.emit.author import author_drafter
from forgepack.emit.constant_spec import Narrowing
from forgepack.emit.constants_file import store_constants
from forgepack.emit.describe import Note, describe_file
from forgepack.emit.inputs import (
    LICENCE_FILES,
    EmitInputs,
    Identity,
    identify,
    input_bytes,
    input_states,
    package_sources,
)
from forgepack.emit.sidecar_content import (
    SOURCE_FILE,
    PackageContent,
    asset_metadata,
    sidecar,
    source_record,
)
from forgepack.emit.table import constant_table
from forgepack.geometry import Geometry, codebook_tensors
from forgepack.profile import Profile, Recipe
from forgepack.staging import locked_work, publish, remove_work, writing

SELECTOR_FILE = "selector.safetensors"
_STAGE = "stage-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where emission is: the step's name, and bytes done of ``total`` (0 where that is not known)."""

    step: str
    done: int
    total: int


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitResult:
    """The published package: its folder, the asset's path, size and digest, and the sidecar's content."""

    root: Path
    asset: Path
    asset_bytes: int
    program_sha256: str
    sidecar_file: Path
    sidecar: Mapping[str, Any]
    narrowed: Mapping[str, Narrowing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What emission would write: files in order, the asset's payload, and the disk that it needs meanwhile."""

    files: tuple[str, ...]
    constants: int
    payload_bytes: int
    disk_bytes: int


def plan_package(profile: Profile) -> Plan:
    """Return what ``emit_package`` would write for this profile; nothing is read or written."""
    specs = constant_table(profile.geometry, profile.recipe).values()
    payload = sum(payload_bytes(spec.dtype, spec.shape) for spec in specs)
    rows, rank = next(iter(codebook_tensors(profile.geometry).values()))
    selector = 2 * rows * rank * 2
    asset = f"{profile.package}.aimodel"
    names = [CONFIG_FILE, *LICENCE_FILES, SELECTOR_FILE, SOURCE_FILE, f"{profile.package}.json"]
    names += [f"{asset}/{name}" for name in ("main.hash", "main.mlirb", "metadata.json")]
    return Plan(
        files=tuple(sorted(names)),
        constants=len(specs),
        payload_bytes=payload,
        disk_bytes=2 * payload + selector + (16 << 20),
    )


def deployed_recipe(profile: Profile, mask_scale: float) -> Recipe:
    """Return the profile's recipe with the mask scale that is deployed."""
    return replace(profile.recipe, mask_scale=mask_scale)


def emit_package(
    inputs: EmitInputs,
    out: Path,
    *,
    profile: Profile,
    force: bool = False,
    created: int = FIXED_DATE,
    report: Report | None = None,
) -> EmitResult:
    """Emit the drafter package into the folder ``out``: asset, sidecar, codebooks, config, licences, source.

    The same inputs give the same bytes. ``created`` (seconds since 1970) is the only date in them. Raises UsageError
    for an existing output without ``force``, IdentityError for inputs that do not belong together, NumericsError
    for values that float16 can't hold, OutputError when writing fails, PlatformError where Core AI is missing.
    """
    require_coreai()
    with locked_work(out, force=force) as work:
        _remove_dead_stages(work)
        job = _Job(inputs=inputs, profile=profile, report=report)
        try:
            states = input_states(inputs)
            identity = identify(inputs, profile, note=job.note("check inputs", input_bytes(inputs)))
            with writing(work), tempfile.TemporaryDirectory(prefix=_STAGE, dir=work) as stage:
                result = job.write(Path(stage), identity, created)
                require_unchanged(states)
                publish(Path(stage) / "package", out)
        finally:
            remove_work(work)
    return replace(result, root=out, asset=out / result.asset, sidecar_file=out / result.sidecar_file)


def _remove_dead_stages(work: Path) -> None:
    """Remove what killed runs left; a child of theirs may still be about to end, and keep some of it for the next."""
    for path in work.glob(f"{_STAGE}*"):
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    inputs: EmitInputs
    profile: Profile
    report: Report | None

    def note(self, step: str, total: int) -> Note:
        """Return a counter of bytes that reports progress of one step."""
        done, lock = 0, threading.Lock()

        def count(size: int) -> None:
            nonlocal done
            with lock:
                done += size
                if self.report is not None:
                    self.report(Progress(step=step, done=done, total=total))

        count(0)
        return count

    def write(self, stage: Path, identity: Identity, created: int) -> EmitResult:
        """Write the whole package into ``stage/package``."""
        root, profile = stage / "package", self.profile
        with writing(root):
            root.mkdir()
        recipe = deployed_recipe(profile, self.inputs.quant.report.mask_scale)
        table = constant_table(profile.geometry, recipe)
        note = self.note("compute constants", sum(payload_bytes(s.dtype, s.shape) for s in table.values()))
        stored = store_constants(table, package_sources(self.inputs, profile), stage / "constants.bin", note=note)
        self.note("author the asset", 0)
        asset_root = root / f"{profile.package}.aimodel"
        metadata = asset_metadata(profile, identity, created, narrowed=stored.narrowed)
        asset = author_drafter(stored, asset_root, geometry=profile.geometry, recipe=recipe, metadata=metadata)
        self.note("write files", 0)
        _write_files(root, self.inputs.checkpoint, profile, identity)
        known = {f"{asset_root.name}/main.mlirb": {"bytes": asset.program_bytes, "sha256": asset.program_sha256}}
        files = {
            entry.path: known.get(entry.path) or describe_file(root / entry.path)
            for entry in walk(root)
            if entry.kind == "file"
        }
        size = sum(path.stat().st_size for path in asset_root.iterdir())
        content = PackageContent(table=table, stored=stored, asset=asset, files=files, asset_bytes=size)
        bound = sidecar(profile, identity, content)
        sidecar_file = root / f"{profile.package}.json"
        _write(sidecar_file, dump_canonical(bound))
        with writing(root):
            fsync_folder(root)
        return EmitResult(
            root=root,
            asset=Path(asset_root.name),
            asset_bytes=size,
            program_sha256=asset.program_sha256,
            sidecar_file=Path(sidecar_file.name),
            sidecar=bound,
            narrowed=stored.narrowed,
        )


def _write_files(root: Path, checkpoint: Checkpoint, profile: Profile, identity: Identity) -> None:
    """Write the files beside the asset: config and licences byte for byte, codebooks, source record."""
    for name in (CONFIG_FILE, *LICENCE_FILES):
        locked = checkpoint.lock.file(name)
        assert locked is not None, "a lock covers every file of its profile"
        _write(root / name, read_bounded(checkpoint.root / name, locked.bytes))
    _write_selector(root / SELECTOR_FILE, checkpoint, profile.geometry)
    files = {file.path: {"bytes": file.bytes, "sha256": file.sha256} for file in checkpoint.lock.files}
    _write(root / SOURCE_FILE, dump_canonical(source_record(profile, identity, files)))


def _write_selector(path: Path, checkpoint: Checkpoint, geometry: Geometry) -> None:
    """Write exactly the two codebooks, BF16 under their names in the checkpoint, contiguous from offset 0.

    NumericsError for a value that is not finite.
    """
    tensors = codebook_tensors(geometry)
    with writing(path), SafetensorsWriter(path, {n: ("BF16", shape) for n, shape in tensors.items()}, {}) as writer:
        for name in tensors:
            writer.write(name, checkpoint.stored(name))


def _write(path: Path, data: bytes) -> None:
    with writing(path), path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
