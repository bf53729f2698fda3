"""Emission: compute the constants, author the asset, describe it all, publish in one step.

Every byte of the inputs is checked meanwhile; nothing is published, or said of them, before they have passed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import PROGRAM_FILE
from forgepack.artifacts.checkpoint import CONFIG_FILE, Checkpoint
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.artifacts.state import require_unchanged
from forgepack.artifacts.tree import walk
from forgepack.canonical import dump_canonical
from forgepack.coreai_backend.asset_writer import FIXED_DATE, WrittenAsset, seal_program
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.constants import payload_bytes
from forgepack.disk.failures import writing
from forgepack.disk.files import fsync_folder, make_folder, write_new
from forgepack.disk.folders import locked_work, publish, remove_work, scratch_folder
from forgepack.emit.author import Author, AuthoredProgram, open_author
from forgepack.emit.constant_spec import ConstantSpec, Narrowing
from forgepack.emit.constants_file import StoredConstant, comes_late, lay_out, narrowings, store_constants
from forgepack.emit.inputs import (
    LICENCE_FILES,
    EmitInputs,
    Identity,
    identify,
    input_bytes,
    input_places,
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
from forgepack.errors import UsageError
from forgepack.facts.files import file_record
from forgepack.geometry import Geometry, codebook_tensors
from forgepack.profile import Profile, Recipe

SELECTOR_FILE = "selector.safetensors"
_STAGE = "stage-"
_END_OF_TIME = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where emission is: the step that began last, and the bytes that all of them have done of ``total``."""

    step: str
    done: int
    total: int


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitResult:
    """The published package: its folder, the asset's path, size and digest, and the sidecar's content.

    ``warnings`` say what of the inputs is legal and should be known.
    """

    root: Path
    asset: Path
    asset_bytes: int
    program_sha256: str
    sidecar_file: Path
    sidecar: Mapping[str, Any]
    narrowed: Mapping[str, Narrowing]
    warnings: tuple[str, ...] = ()


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
        disk_bytes=payload + selector + (16 << 20),
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
    check_created(created)
    plan, read = plan_package(profile), input_places(inputs)
    with (
        locked_work(out, force=force, inputs=read, needed=plan.disk_bytes) as work,
        ThreadPoolExecutor(1) as pool,
    ):
        meter = Meter(total=input_bytes(inputs) + plan.payload_bytes, report=report)
        states = input_states(inputs)
        meter.begin("check inputs")
        proof = pool.submit(identify, inputs, profile, note=meter.count)
        job = _Job(inputs=inputs, profile=profile, proof=proof, meter=meter)
        try:
            with scratch_folder(work, _STAGE) as stage:
                result = job.write(stage, created)
                require_unchanged(states)
                publish(stage / "package", out)
        finally:
            remove_work(work)
            proof.result()  # report what is wrong with the inputs rather than its consequences
    return replace(result, root=out, asset=out / result.asset, sidecar_file=out / result.sidecar_file)


def check_created(created: int) -> None:
    """Raise UsageError for what is not a date: the asset's metadata hold seconds since 1970."""
    if not 0 <= created < _END_OF_TIME:
        expected = "seconds since 1970, at most 12 digits"
        raise UsageError("the creation date is out of range", expected=expected, found=str(created))


class Meter:
    """Counts the bytes of all steps, from several threads, and reports them under the step that began last."""

    def __init__(self, *, total: int, report: Report | None) -> None:
        self._total = total
        self._report = report
        self._step = ""
        self._done = 0
        self._lock = threading.Lock()

    def begin(self, step: str) -> None:
        """Name the step that begins now."""
        self._step = step
        self.count(0)

    def count(self, size: int) -> None:
        """Count bytes that were read or computed."""
        with self._lock:
            self._done += size
            if self._report is not None:
                self._report(Progress(step=self._step, done=self._done, total=self._total))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One emission; ``proof`` is the identity of the inputs, found while the package is made of them."""

    inputs: EmitInputs
    profile: Profile
    proof: Future[Identity]
    meter: Meter

    def write(self, stage: Path, created: int) -> EmitResult:
        """Write the whole package into ``stage/package``."""
        root, profile = stage / "package", self.profile
        make_folder(root)
        recipe = deployed_recipe(profile, self.inputs.quant.report.mask_scale)
        table = constant_table(profile.geometry, recipe)
        asset_root = root / f"{profile.package}.aimodel"
        with open_author(asset_root, geometry=profile.geometry, recipe=recipe) as author:
            program, stored = self._program(author, table, stage / "constants.bin", asset_root / PROGRAM_FILE)
            self.meter.begin("write files")
            _copy_files(root, self.inputs.checkpoint, profile.geometry)
            asset = seal_program(asset_root)
            identity = self.proof.result()
            author.describe(asset_metadata(profile, identity, created, narrowed=narrowings(stored)))
        _write_source(root, self.inputs.checkpoint, profile, identity)
        size = sum(path.stat().st_size for path in asset_root.iterdir())
        content = PackageContent(
            table=table,
            stored=stored,
            trace_sha256=program.trace_sha256,
            files=_describe_files(root, asset),
            asset_bytes=size,
        )
        bound = sidecar(profile, identity, content)
        sidecar_file = root / f"{profile.package}.json"
        write_new(sidecar_file, dump_canonical(bound))
        with writing(root):
            fsync_folder(root)
        return EmitResult(
            root=root,
            asset=Path(asset_root.name),
            asset_bytes=size,
            program_sha256=asset.program_sha256,
            sidecar_file=Path(sidecar_file.name),
            sidecar=bound,
            narrowed=narrowings(stored),
            warnings=identity.warnings,
        )

    def _program(
        self, author: Author, table: Mapping[str, ConstantSpec], scratch: Path, path: Path
    ) -> tuple[AuthoredProgram, dict[str, StoredConstant]]:
        """Write the program, then each large constant into its place in it; return all constants."""
        sources = package_sources(self.inputs, self.profile)
        late = [spec for spec in table.values() if comes_late(spec)]
        early = [spec for spec in table.values() if not comes_late(spec)]
        self.meter.begin("author the program")
        places = lay_out(early)
        stored = store_constants(early, sources, scratch, places, note=self.meter.count)
        program = author.program(scratch, places)
        self.meter.begin("compute constants")
        return program, stored | store_constants(late, sources, path, program.places, note=self.meter.count)


def _describe_files(root: Path, asset: WrittenAsset) -> dict[str, dict[str, Any]]:
    """Return path -> size and digest of every file of the package; the program's are known."""
    program = f"{asset.root.name}/{PROGRAM_FILE}"
    known = {program: {"bytes": asset.program_bytes, "sha256": asset.program_sha256}}
    return {
        entry.path: known.get(entry.path) or file_record(root / entry.path)
        for entry in walk(root)
        if entry.kind == "file"
    }


def _copy_files(root: Path, checkpoint: Checkpoint, geometry: Geometry) -> None:
    """Write what comes from the checkpoint as it is: config and licences byte for byte, codebooks."""
    for name in (CONFIG_FILE, *LICENCE_FILES):
        locked = checkpoint.lock.file(name)
        assert locked is not None, "a lock covers every file of its profile"
        write_new(root / name, read_bounded(checkpoint.root / name, locked.bytes))
    _write_selector(root / SELECTOR_FILE, checkpoint, geometry)


def _write_source(root: Path, checkpoint: Checkpoint, profile: Profile, identity: Identity) -> None:
    """Write the record of where the drafter comes from."""
    files = {file.path: {"bytes": file.bytes, "sha256": file.sha256} for file in checkpoint.lock.files}
    write_new(root / SOURCE_FILE, dump_canonical(source_record(profile, identity, files)))


def _write_selector(path: Path, checkpoint: Checkpoint, geometry: Geometry) -> None:
    """Write exactly the two codebooks, BF16 under their names in the checkpoint, contiguous from offset 0.

    NumericsError for a value that is not finite.
    """
    tensors = codebook_tensors(geometry)
    with writing(path), SafetensorsWriter(path, {n: ("BF16", shape) for n, shape in tensors.items()}, {}) as writer:
        for name in tensors:
            writer.write(name, checkpoint.stored(name))
