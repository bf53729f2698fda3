"""Stage a release: copy target and drafter, write the documents and release.json, verify, publish in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import CHUNK, open_regular, read_bounded
from forgepack.artifacts.release_json import (
    DOCUMENTATION,
    DOCUMENTS,
    RELEASE_FILE,
    SCHEMA_VERSION,
    ReleaseFile,
    needs_notice,
    parse_release,
)
from forgepack.artifacts.release_record import RECORD_FILE, SUMS_FILE, release_record, render_sums
from forgepack.artifacts.sidecar import read_written
from forgepack.artifacts.target import read_manifest
from forgepack.artifacts.unproven import unproven_sources
from forgepack.canonical import dump_canonical, parse_object, sha256_hex
from forgepack.disk.failures import writing
from forgepack.disk.files import fsync_folder, make_folder, new_file, write_new
from forgepack.disk.folders import fresh_folder, locked_work, publish, remove_work
from forgepack.disk.space import SPARE
from forgepack.errors import ForgepackError, IdentityError, PlatformError, UnreadableError
from forgepack.profile import Profile
from forgepack.release.bundle.documents import compose_documents, modification_notice
from forgepack.release.bundle.inventory import BundleInputs, Inventory, PlannedFile, take_inventory
from forgepack.verify.bundle import Bundle, find_bundle
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.hashing import FileDigest
from forgepack.verify.inputs.sources import absolute

_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the work is: the step's name, bytes done, bytes in all (0 where that is not known), and the file."""

    step: str
    done: int
    total: int
    path: str = ""


Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleResult:
    """The published release: its folder, its inventory, what was left behind, and the report it passed."""

    root: Path
    files: tuple[ReleaseFile, ...]
    release_sha256: str
    left_behind: tuple[str, ...]
    report: Report

    @property
    def bytes(self) -> int:
        """Bytes of all files of the inventory."""
        return sum(file.bytes for file in self.files)


def make_bundle(
    inputs: BundleInputs,
    out: Path,
    *,
    profile: Profile,
    force: bool = False,
    depth: Depth = Depth.HASH,
    listener: Listener | None = None,
) -> BundleResult:
    """Write the release folder ``out`` and return what it holds; the same inputs give the same bytes.

    Each file is hashed while it is copied, and the staged release must pass its own verification at ``depth`` before
    it is published. Raises the errors of reading, IdentityError for parts that do not belong together, OutputError
    when writing fails, UsageError for an existing output without ``force``.
    """
    inventory = take_inventory(inputs)
    with locked_work(out, force=force, inputs=inputs.places(), needed=disk_bytes(inventory)) as work:
        try:
            stage = fresh_folder(absolute(work) / "stage")  # digests are known by absolute path
            job = _Job(inputs=inputs, profile=profile, stage=stage, listener=listener)
            files = job.fill(inventory)
            report = job.judge(files, depth)
            publish(stage, out)
        finally:
            remove_work(work)
    release = next(file for file in files if file.path == RELEASE_FILE)
    return BundleResult(
        root=out,
        files=tuple(file for file in files if file.path not in (RELEASE_FILE, RECORD_FILE, SUMS_FILE)),
        release_sha256=release.sha256,
        left_behind=inventory.left_behind,
        report=report,
    )


def disk_bytes(inventory: Inventory) -> int:
    """Return the bytes that a bundle takes beside its place."""
    return inventory.bytes + SPARE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    inputs: BundleInputs
    profile: Profile
    stage: Path
    listener: Listener | None

    def fill(self, inventory: Inventory) -> list[ReleaseFile]:
        """Write everything into the stage, release.json last, and return every file that is in it."""
        copied = [self._listed(file, digest) for file, digest in self._copy(inventory)]
        unproven = unproven_sources(self._binding(), pinned=self.profile.hub.pins_all)
        documents = compose_documents(self.inputs, copied, self.profile, unproven=unproven)
        files = copied + [self._written(name, documents[name]) for name in DOCUMENTS]
        files.sort(key=lambda file: file.path)
        data = dump_canonical(self._release(files))
        raw = parse_object(data, where=RELEASE_FILE)
        # Its faults are those of the inputs: they are reported when the stage is checked.
        release, _ = parse_release(raw, path=self.stage / RELEASE_FILE, sha256=sha256_hex(data))
        assert release is not None
        record = release_record(release, len(data), self._binding(), profile=self.profile)
        files.append(self._written(RECORD_FILE, dump_canonical(record)))
        files.append(ReleaseFile(path=RELEASE_FILE, component="", bytes=len(data), sha256=release.sha256))
        files.append(self._written(SUMS_FILE, render_sums({file.path: file.sha256 for file in files})))
        self._written(RELEASE_FILE, data)
        self._flush_folders()
        return files

    def judge(self, files: list[ReleaseFile], depth: Depth) -> Report:
        """Verify the stage with the digests of the copy; raise unless it passes."""
        self._tell("verify", 0, 0)
        known = {self.stage / file.path: FileDigest(bytes=file.bytes, sha256=file.sha256) for file in files}
        report = verify(Bundle(find_bundle(self.stage), self.profile, depth, known=known))
        if report.verdict != "pass":
            raise refusal(report, self.inputs)
        return report

    def _copy(self, inventory: Inventory) -> Iterator[tuple[PlannedFile, str]]:
        done = 0
        for file in inventory.files:

            def note(size: int, path: str = file.path) -> None:
                nonlocal done
                done += size
                self._tell("copy", done, inventory.bytes, path)

            note(0)
            yield file, copy_hashed(file, self.stage / file.path, note)

    def _listed(self, file: PlannedFile, sha256: str) -> ReleaseFile:
        needed = needs_notice(file.path, file.component)
        notice = modification_notice(file.component, self.inputs.upstream, self.profile) if needed else None
        return ReleaseFile(path=file.path, component=file.component, bytes=file.bytes, sha256=sha256, notice=notice)

    def _written(self, name: str, data: bytes) -> ReleaseFile:
        write_new(self.stage / name, data)
        component = DOCUMENTATION if name in DOCUMENTS else ""
        return ReleaseFile(path=name, component=component, bytes=len(data), sha256=sha256_hex(data))

    def _release(self, files: list[ReleaseFile]) -> dict[str, Any]:
        """Return release.json: the keys that Forge's release check knows, no others."""
        manifest = read_manifest(self.inputs.target.build)
        components = {file.component for file in files}
        export = {"export_path": "export"} if "export" in components else {}
        return {
            "schema_version": SCHEMA_VERSION,
            "upstream_model": {"id": self.inputs.upstream.id, "revision": self.inputs.upstream.revision},
            "model_path": "model",
            "runtimes": {"coreai": {"path": "coreai", "contexts": sorted(manifest.contexts)}},
            **export,
            "drafter": drafter_entry(self._read("config.json"), self._sidecar(), stem=self.profile.package),
            "files": [file.as_json() for file in files],
        }

    def _read(self, name: str) -> Mapping[str, Any]:
        file = self.inputs.drafter / name
        return parse_object(read_bounded(file), where=str(file))

    def _sidecar(self) -> Mapping[str, Any]:
        return read_written(self.inputs.drafter / f"{self.profile.package}.json")[0]

    def _binding(self) -> Mapping[str, Any]:
        bound = self._sidecar().get("forgepack")
        return bound if isinstance(bound, dict) else {}

    def _flush_folders(self) -> None:
        with writing(self.stage):
            for folder in sorted(path for path in self.stage.rglob("*") if path.is_dir()):
                fsync_folder(folder)

    def _tell(self, step: str, done: int, total: int, path: str = "") -> None:
        if self.listener is not None:
            self.listener(Progress(step=step, done=done, total=total, path=path))


def drafter_entry(config: Mapping[str, Any], sidecar: Mapping[str, Any], *, stem: str) -> dict[str, Any]:
    """Return the drafter of release.json: file names, the pair's export names, and the taps in their order."""
    inner = config.get("dflash_config")
    head = str(sidecar.get("head_export", "")).split("/")
    return {
        "path": "drafter",
        "runtime": "coreai",
        "model": f"{stem}.aimodel",
        "metadata": f"{stem}.json",
        "config": "config.json",
        "codebooks": "selector.safetensors",
        "target_export": str(sidecar.get("target_export", "")).rpartition("/")[2],
        "head_export": head[-2] if len(head) > 1 else "",
        "taps": inner.get("target_layer_ids") if isinstance(inner, dict) else None,
    }


def copy_hashed(file: PlannedFile, out: Path, note: Callable[[int], None]) -> str:
    """Copy a file and return the SHA-256 of the bytes that were written; UnreadableError when its size changed.

    ``note`` gets the bytes just copied.
    """
    digest, size = hashlib.sha256(), 0
    make_folder(out.parent, parents=True)
    with new_file(out) as target, open_regular(file.source) as source:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            with writing(out):
                target.write(chunk)
            note(len(chunk))
    if size != file.bytes:
        raise UnreadableError("the file changed while it was copied", where=str(file.source), code="changed")
    return digest.hexdigest()


def refusal(report: Report, inputs: BundleInputs) -> ForgepackError:
    """Return the error for a staged release that does not pass, naming the rules that are its root causes."""
    causes = [c for c in report.failed("error") if c.cause is None] or report.failed("error")
    causes += [c for c in report.checks if c.status == "not-evaluated" and report.refuses(c) and c.cause is None]
    lines = [f"{c.id}: {c.findings[0].where if c.findings else c.reason}" for c in causes[:_SHOWN]]
    lines += [failure.what for failure in report.failures]
    kinds: dict[int, type[ForgepackError]] = {7: PlatformError, 4: UnreadableError}
    kind = kinds.get(report.exit_code, IdentityError)
    return kind(
        "target and drafter do not make a release",
        where=str(inputs.drafter),
        found="; ".join(lines),
        hint="forgepack verify DRAFTER --target DIR lists each fault and its remedy",
        code="bundle-refused",
    )
