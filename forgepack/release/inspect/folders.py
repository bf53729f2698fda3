"""Describe folders: checkpoint, QUANT, drafter package, asset, target and its parts, bundle."""

from __future__ import annotations

from pathlib import Path

from forgepack.artifacts.aimodel import SUFFIX, AssetFiles, hash_program, read_asset_files
from forgepack.artifacts.checkpoint import CONFIG_FILE, MODEL_FILE
from forgepack.artifacts.config import read_drafter_config, read_target_config
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, read_lock
from forgepack.artifacts.locked import byte_differences, size_differences
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import REPORT_FILE, read_quant_report
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.sidecar import read_sidecar, sidecar_path
from forgepack.artifacts.target import (
    EMBEDDING_FILE,
    HEAD_FILE,
    MANIFEST_FILE,
    locate_target,
    read_embedding,
    read_manifest,
)
from forgepack.artifacts.tokenizer import read_tokenizer
from forgepack.artifacts.tree import Entry, walk
from forgepack.canonical import parse_object
from forgepack.errors import CorruptError, MissingError
from forgepack.limits import RELEASE_BYTES
from forgepack.release.inspect.document_facts import drafter_config_facts, leaves, release_facts, sidecar_facts
from forgepack.release.inspect.notes import Notes
from forgepack.release.inspect.recognition import RELEASE_FILE
from forgepack.release.inspect.tensors import head_facts, tensor_facts
from forgepack.verify.inputs.layout import LICENCE_FILE, NOTICE_FILE, SELECTOR_FILE, SOURCE_FILE


def describe_checkpoint(notes: Notes) -> None:
    """Note pins, config and weights; every byte is compared with the lock where all bytes are asked for."""
    root = notes.path
    notes.title = "an unquantized drafter checkpoint"
    lock = notes.attempt(lambda: read_lock(root)) if (root / LOCK_NAME).exists() else None
    if lock is None:
        notes.facts["lock"] = "none that counts: forgepack fetch --adopt makes one"
        if (root / MODEL_FILE).is_file():
            notes.hash(root / MODEL_FILE, MODEL_FILE)
    else:
        _lock_facts(notes, lock)
        differences = byte_differences(root, lock) if notes.deep else size_differences(root, lock)
        for one in differences:
            notes.fault(CorruptError("not what the lock says", where=one.path, found=str(one), code="lock-differs"))
    config = notes.attempt(lambda: read_drafter_config(root / CONFIG_FILE))
    if config is not None:
        drafter_config_facts(notes, config)
    weights = notes.attempt(lambda: read_safetensors(root / MODEL_FILE))
    if weights is not None:
        tensor_facts(notes, weights)
    _missing(notes, (LICENCE_FILE, NOTICE_FILE))


def _lock_facts(notes: Notes, lock: CheckpointLock) -> None:
    notes.identity |= {"repository": lock.repo, "commit": lock.commit, "lock": lock.digest}
    model = lock.file(MODEL_FILE)
    if model is not None:
        notes.identity[MODEL_FILE] = model.sha256
        notes.know(model.sha256)
    kinds = ", ".join(sorted({f.evidence or "not recorded" for f in lock.files}))
    adopted = f"no: adopted from a folder; the client's records: {kinds}"
    notes.facts["compared with the hub"] = adopted if lock.adopted else "yes, when fetched"
    pins = {(p.hub.repo, p.hub.commit): p.name for p in notes.profiles}
    notes.facts["pinned by"] = pins.get((lock.repo, lock.commit), "no known profile")


def describe_quant(notes: Notes) -> None:
    """Note how and from what a drafter was quantized."""
    root = notes.path
    notes.title = "a quantized drafter (QUANT)"
    report = notes.attempt(lambda: read_quant_report(root / REPORT_FILE))
    if report is not None:
        notes.identity |= {
            QUANT_FILE: report.output_sha256,
            "checkpoint": f"{report.repo} @ {report.commit}",
            "checkpoint weights": report.model_sha256,
            "head": report.head_sha256,
            "traces": report.traces_sha256,
        }
        notes.facts |= {
            "method": f"{report.method} ({report.variant})",
            "mask scale": f"{report.mask_scale:g}, calibrated at {report.calibration_mask_scale:g}",
            "made for profile": report.profile,
        }
    weights = notes.attempt(lambda: read_safetensors(root / QUANT_FILE))
    if weights is not None:
        tensor_facts(notes, weights)
        if notes.deep and report is not None and notes.hash(root / QUANT_FILE, "found") != report.output_sha256:
            notes.fault(
                CorruptError("the tensors are not those of the report", where=QUANT_FILE, code="quant-digest")
            )


def describe_package(notes: Notes) -> None:
    """Note what a drafter package belongs to, as its sidecar states, and its asset's digest."""
    root = notes.path
    notes.title = "a drafter package"
    for asset in sorted(path for path in root.iterdir() if path.name.endswith(SUFFIX)):
        _package_parts(notes, asset, sidecar_path(asset))
    _missing(notes, (CONFIG_FILE, SELECTOR_FILE, SOURCE_FILE, LICENCE_FILE, NOTICE_FILE))


def _package_parts(notes: Notes, asset: Path, sidecar: Path) -> None:
    files = notes.attempt(lambda: read_asset_files(asset))
    if files is not None:
        notes.facts["asset"] = f"{asset.name}, {files.program_bytes} bytes"
        _asset_identity(notes, files)
    found = notes.attempt(lambda: read_sidecar(sidecar))
    if found is not None:
        notes.identity["sidecar"] = found.sha256
        sidecar_facts(notes, found.raw)


def describe_asset(notes: Notes) -> None:
    """Note an asset's digest, what its metadata says, and, where programs are asked for, its entry points."""
    notes.title = "a Core AI asset"
    files = notes.attempt(lambda: read_asset_files(notes.path))
    if files is None:
        return
    _asset_identity(notes, files)
    notes.facts["program"] = f"{files.program_bytes} bytes"
    metadata = files.metadata
    for key in ("author", "license", "shortDescription", "description"):
        if isinstance(metadata.get(key), str) and metadata[key]:
            notes.facts[key] = metadata[key]
    bound = files.custom.get("forgepack")
    if isinstance(bound, dict):
        notes.facts["made for"] = leaves(bound, ("profile.name", "target.export", "quantization.variant"))
    if files.extra:
        notes.facts["further files"] = ", ".join(files.extra)
    if notes.deep:
        _entry_points(notes, files)


def _asset_identity(notes: Notes, files: AssetFiles) -> None:
    notes.identity["program"] = files.stated_sha256
    notes.identity["metadata"] = files.content_sha256
    if notes.deep:
        notes.attempt(lambda: hash_program(files))


def _entry_points(notes: Notes, files: AssetFiles) -> None:
    from forgepack.coreai_backend.reader import read_asset

    reading = notes.attempt(lambda: read_asset(files, digests=False))
    for function in () if reading is None else reading.program.functions:
        ports = [f"{len(function.inputs)} inputs", f"{len(function.outputs)} outputs"]
        logits = any(port.name == "logits" for port in function.outputs)
        notes.facts[f"entry {function.name}"] = ", ".join([*ports, *(["logits among them"] if logits else [])])


def describe_target(notes: Notes) -> None:
    """Note every part of a target's release root."""
    notes.title = "a target's release root"
    paths = locate_target(notes.path)
    describe_model(notes, paths.model)
    describe_build(notes, paths.build)
    if paths.export is None:
        notes.facts["export"] = "none"
    else:
        describe_export(notes, paths.export)
    notes.title = "a target's release root"


def describe_model(notes: Notes, root: Path | None = None) -> None:
    """Note config, tokenizer and embedding of a target's model folder."""
    folder = root or notes.path
    notes.title = "a target's model folder: config, tokenizer, embedding"
    config = notes.attempt(lambda: read_target_config(folder / CONFIG_FILE))
    if config is not None:
        notes.facts["model"] = f"{config.layers} layers, hidden {config.hidden}, vocabulary {config.vocab}"
        notes.identity["config"] = config.sha256
    tokenizer = notes.attempt(lambda: read_tokenizer(folder))
    if tokenizer is not None:
        notes.facts["tokenizer"] = f"{len(tokenizer.tokens)} tokens, highest id {tokenizer.size - 1}"
        notes.identity |= {"tokenizer": tokenizer.sha256, "tokenizer, by meaning": tokenizer.semantic_sha256}
        notes.know(tokenizer.sha256)
    embedding = notes.attempt(lambda: read_embedding(folder / EMBEDDING_FILE))
    if embedding is not None:
        notes.facts["embedding"] = f"float16 {list(embedding.shape)}"
        notes.hash(embedding.path, "embedding")


def describe_build(notes: Notes, root: Path | None = None) -> None:
    """Note manifest, chunks and head package of a target's build."""
    folder = root or notes.path
    notes.title = "a target's build: manifest and packages"
    manifest = notes.attempt(lambda: read_manifest(folder))
    if manifest is None:
        return
    notes.identity["manifest"] = manifest.digest
    last = manifest.chunks[-1].layers[1] if manifest.chunks else -1
    notes.facts |= {
        "made from export": manifest.export,
        "taps": list(manifest.taps),
        "block": manifest.block,
        "contexts": list(manifest.contexts),
        "chunks": f"{len(manifest.chunks)}, layers 0..{last}",
        "basis": "not rotated" if manifest.basis is None else "rotated: rot1_basis is set",
    }
    for name in (*(chunk.file for chunk in manifest.chunks), manifest.head_file):
        if not (folder / name).exists():
            notes.fault(MissingError("the manifest names a package that is not there", where=name, code="missing"))


def describe_export(notes: Notes, root: Path | None = None) -> None:
    """Note the head and the layers of a target's export."""
    folder = root or notes.path
    notes.title = "a target's export: layers and head"
    layers = sum(1 for p in folder.iterdir() if p.name.startswith("layer_") and "mixer" not in p.name)
    notes.facts["export"] = f"{folder.name}, {layers} layers"
    head = notes.attempt(lambda: read_safetensors(folder / HEAD_FILE))
    if head is not None:
        head_facts(notes, head)
        notes.hash(head.path, "head")


def describe_bundle(notes: Notes) -> None:
    """Note what a release holds, by its own inventory."""
    notes.title = "a release (bundle)"
    path = notes.path / RELEASE_FILE
    raw = notes.attempt(lambda: parse_object(read_bounded(path, RELEASE_BYTES), where=str(path)))
    if raw is None:
        return
    notes.hash(path, RELEASE_FILE)
    release_facts(notes, raw)
    listed = {entry.get("path") for entry in raw.get("files", []) if isinstance(entry, dict)}
    found = {entry.path for entry in _files(notes.path)} - {RELEASE_FILE}
    notes.facts["files"] = f"{len(listed)} listed, {len(listed & found)} of them there"
    beside = sorted(found - listed)
    if beside:
        notes.facts["not listed"] = f"{len(beside)}: {', '.join(beside[:4])}"


def describe_folder(notes: Notes) -> None:
    """Note what is in a folder of no known kind."""
    notes.title = "a folder of unknown kind"
    files = list(_files(notes.path))
    notes.facts["files"] = f"{len(files)}, {sum(entry.size for entry in files)} bytes"
    notes.facts["first"] = ", ".join(entry.path for entry in files[:6])
    if any(entry.path.endswith(f"/{MANIFEST_FILE}") for entry in files):
        notes.facts["hint"] = "inspect the folders in it"


def _files(root: Path) -> list[Entry]:
    return [entry for entry in walk(root) if entry.kind in ("file", "link")]


def _missing(notes: Notes, names: tuple[str, ...]) -> None:
    absent = [name for name in names if not (notes.path / name).exists()]
    if absent:
        notes.facts["not there"] = ", ".join(absent)
