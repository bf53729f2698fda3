"""The inputs of emission, checked against the profile and each other before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.aimodel import HASH_FILE, PROGRAM_FILE, SUFFIX, read_asset_files, stated_hash_digest
from forgepack.artifacts.checkpoint import Checkpoint
from forgepack.artifacts.export import equal_layers
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.locked import require_locked
from forgepack.artifacts.model_files import disagreements, read_model_files
from forgepack.artifacts.quant import Quant
from forgepack.artifacts.release_json import MODEL_FILES
from forgepack.artifacts.state import FileState, file_states
from forgepack.artifacts.target import Target
from forgepack.artifacts.tree import walk
from forgepack.coreai_backend.reader import read_asset
from forgepack.emit.constant_spec import Array, Sources
from forgepack.emit.table import MASK_ROW, MASK_SCALE
from forgepack.errors import IdentityError, MissingError
from forgepack.facts.checkpoint import checkpoint_facts
from forgepack.facts.fact import record_of
from forgepack.facts.files import Note
from forgepack.facts.quantization import quantization_facts
from forgepack.facts.target import target_record
from forgepack.geometry import lut_matrices
from forgepack.parallel import gather
from forgepack.profile import Profile
from forgepack.quantize.fidelity import compare_matrices, compared_bytes, matrices_of

LICENCE_FILES = ("LICENSE", "NOTICE")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitInputs:
    """What emission reads; the target must come with its export."""

    quant: Quant
    checkpoint: Checkpoint
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The inputs by content, in the sidecar's form; ``warnings`` say what is legal and should be known."""

    checkpoint: dict[str, Any]
    target: dict[str, Any]
    quantization: dict[str, Any]
    warnings: tuple[str, ...] = ()


def input_states(inputs: EmitInputs) -> tuple[FileState, ...]:
    """Return the state of every file that is read after it was checked: it must be the same when all is written."""
    checkpoint, head = inputs.checkpoint, inputs.target.head
    locked = [checkpoint.root / file.path for file in checkpoint.lock.files]
    paths = [inputs.quant.tensors.path, *locked, inputs.target.embedding.path]
    return file_states(paths + ([] if head is None else [head.path]))


def input_places(inputs: EmitInputs) -> dict[str, Path | None]:
    """Return role -> folder of everything that is read: no output may stand there."""
    paths = inputs.target.paths
    parts = {
        "the target's model": paths.model,
        "the target's build": paths.build,
        "the target's export": paths.export,
    }
    return {
        "the quantized drafter": inputs.quant.tensors.path.parent,
        "the checkpoint": inputs.checkpoint.root,
    } | parts


def input_bytes(inputs: EmitInputs) -> int:
    """Return about how many bytes ``identify`` will read, for the display of progress."""
    paths = inputs.target.paths
    folders = [paths.build] + ([] if paths.export is None else [paths.export])
    files = sum(entry.size for folder in folders for entry in walk(folder))
    locked = sum(file.bytes for file in inputs.checkpoint.lock.files)
    compared = compared_bytes(inputs.quant.geometry)
    return files + locked + inputs.quant.tensors.size + inputs.target.embedding.path.stat().st_size + compared


def package_sources(inputs: EmitInputs, profile: Profile) -> Sources:
    """Return the lookup that the constant table asks: quant, checkpoint, head, mask row, mask scale."""
    head = inputs.target.head
    if head is None:
        raise _no_export(inputs.target)
    files: dict[str, Callable[[str], Array]] = {
        "quant": inputs.quant.tensors.array,
        "checkpoint": inputs.checkpoint.weights.array,
        "head": head.array,
    }

    def lookup(name: str) -> Array:
        if name == MASK_ROW:
            return inputs.target.embedding.row(profile.geometry.mask_token)
        if name == MASK_SCALE:
            return np.array(inputs.quant.report.mask_scale)
        kind, _, tensor = name.partition(":")
        return files[kind](tensor)

    return lookup


def identify(inputs: EmitInputs, profile: Profile, *, note: Note | None = None) -> Identity:
    """Describe the inputs by content and demand that they belong together.

    Every byte is read: the checkpoint's files against its lock, the quantized weights against their report and row by
    row against the checkpoint, the target's head in its export against its own head package. Raises IdentityError for
    what does not belong, and the readers' errors.
    """
    if inputs.target.head is None:
        raise _no_export(inputs.target)
    _check_model_files(inputs.target, profile)
    _, _, target, package_head, _ = gather(
        lambda: _check_checkpoint(inputs.checkpoint, profile, note),
        lambda: _check_quant_bytes(inputs.quant, note),
        lambda: target_record(inputs.target, profile.geometry, note),
        lambda: _read_head_package(inputs.target),
        lambda: _check_source(inputs, note),
        workers=5,
    )
    _check_hashes(inputs.target, target["files"])
    for what, key, expected, other in _calibrated_on(inputs, target):
        if expected != other:
            raise _foreign(what, f"{inputs.quant.report.path}: inputs.target.{key}", expected, other)
    content = target["head"]["content_sha256"]
    if package_head != content:
        what = "the target's head package does not hold the head of its export: one of them is stale"
        raise _foreign(what, inputs.target.head_package, f"content {content}", f"content {package_head}")
    layers = {path: record["sha256"] for path, record in target["files"].items() if path.endswith(".safetensors")}
    for first, other in equal_layers(layers):
        what = "two files of the export hold the same bytes"
        raise _foreign(what, other, "content of its own", f"the bytes of {first}")
    rewritten = _rewritten_tokenizer(inputs, target)
    return Identity(
        checkpoint=record_of(checkpoint_facts(inputs.checkpoint.root, inputs.checkpoint.lock)),
        target=target,
        quantization=record_of(quantization_facts(inputs.quant.report)),
        warnings=() if rewritten is None else (rewritten,),
    )


def _check_model_files(target: Target, profile: Profile) -> None:
    """Demand that the files of model/ agree with the tokenizer: those rules of area TOK that need all of it."""
    geometry, pin = profile.geometry, profile.target
    names = tuple(name for name in MODEL_FILES if os.path.lexists(target.paths.model / name))
    files, _ = read_model_files(target.paths.model, names)
    for one in disagreements(
        files,
        target.tokenizer,
        pin,
        rows=geometry.vocab,
        config=target.config.stated,
    ):
        what = f"{one.file} does not agree with the target's other files"
        raise _foreign(what, f"{target.paths.model / one.file}: {one.path}", one.expected, one.found)


def _check_checkpoint(checkpoint: Checkpoint, profile: Profile, note: Note | None) -> None:
    """Compare every byte of the checkpoint with its lock; licence and notice must be there and hold text."""
    progress = None if note is None else lambda _path, size: note(size)
    lock = require_locked(checkpoint.root, profile, hashed=True, progress=progress)
    if lock != checkpoint.lock:
        raise _foreign("the lock changed since it was read", checkpoint.root, checkpoint.lock.digest, lock.digest)
    for name in LICENCE_FILES:
        locked = lock.file(name)
        if locked is None or not (checkpoint.root / name).read_bytes().strip():
            raise MissingError(
                "a licence file is missing or empty",
                where=str(checkpoint.root / name),
                hint="a package must carry the drafter's LICENSE and NOTICE: fetch the checkpoint again",
                code="licence",
            )


def _check_quant_bytes(quant: Quant, note: Note | None) -> None:
    size, digest = hash_file(quant.tensors.path, note)
    expected = (quant.report.output_bytes, quant.report.output_sha256)
    if (size, digest) != expected:
        where, found = str(quant.tensors.path), f"{size} bytes, sha256 {digest}"
        text = f"{expected[0]} bytes, sha256 {expected[1]}"
        raise _foreign("the quantized weights are not those of their report", where, text, found)


def _check_source(inputs: EmitInputs, note: Note | None) -> None:
    """Compare each quantized matrix with the checkpoint's, row by row, while both files are hashed."""
    quant, checkpoint = inputs.quant, inputs.checkpoint
    plain = quant.report.method == "rtn"
    matrices = matrices_of(quant.tensors, checkpoint.weights, quant.geometry, plain=plain)
    wrong = [one for one in compare_matrices(matrices, note=note or (lambda _: None)) if not one.loose]
    if wrong:
        lut4 = lut_matrices(quant.geometry)
        first, kinds = wrong[0], {f"WGT03{int(one.tensor.rpartition('.')[0] not in lut4)}" for one in wrong}
        more = f", and {len(wrong) - 1} more tensors" if len(wrong) > 1 else ""
        raise _foreign(
            f"{' and '.join(sorted(kinds))}: the quantized matrices are not made of this checkpoint",
            f"{quant.tensors.path}: {first.tensor}{more}",
            first.expected,
            first.found,
        )


def _check_hashes(target: Target, files: dict[str, Any]) -> None:
    """Demand that main.hash of each of the target's assets is its program's digest; both were hashed."""
    for path, record in files.items():
        stated = files.get(path.removesuffix(PROGRAM_FILE) + HASH_FILE)
        if not path.endswith(f"{SUFFIX}/{PROGRAM_FILE}") or stated is None:
            continue
        if stated["sha256"] != stated_hash_digest(record["sha256"]):
            where = target.paths.build / path.removeprefix("coreai/")
            found = f"sha256 {record['sha256']}"
            raise _foreign("PKG013: main.hash is not the digest of main.mlirb", where, "the stated digest", found)


def _calibrated_on(inputs: EmitInputs, target: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (what, key of the report, expected, found) for what must be equal between target and calibration.

    Headers were checked by verification's rules; this takes digests of whole files. Of the tokenizer its meaning
    counts, where the report states it.
    """
    report = inputs.quant.report
    yield "the quantization is of another head", "head_sha256", target["head"]["sha256"], report.head_sha256
    key = "embedding_sha256"
    yield "the quantization is of another embedding", key, target["embedding"]["sha256"], report.embedding_sha256
    if _rewritten_tokenizer(inputs, target) is None:
        key = "tokenizer_sha256"
        yield "the quantization is of another tokenizer", key, target["tokenizer"]["sha256"], report.tokenizer_sha256


def _rewritten_tokenizer(inputs: EmitInputs, target: dict[str, Any]) -> str | None:
    """Return the warning for a tokenizer of the calibration's meaning in other bytes; None for any other."""
    stated, found = inputs.quant.report.raw["inputs"]["target"], target["tokenizer"]
    if found["sha256"] == stated["tokenizer_sha256"]:
        return None
    if found["semantic_sha256"] != stated.get("tokenizer_semantic_sha256"):
        return None
    where = inputs.target.tokenizer.path
    return f"{where}: the tokenizer was written again since the calibration; it means the same (TOK002, SRC014)"


def _read_head_package(target: Target) -> str:
    """Return the digest of the head that the target's own package computes."""
    files = read_asset_files(target.head_package)
    return read_asset(files, head=True, digests=False).require_head().digest.digest


def _no_export(target: Target) -> MissingError:
    return MissingError(
        "the target's export is missing",
        where=str(target.paths.build),
        hint="name it with --target-export",
        code="export-missing",
    )


def _foreign(what: str, where: Path | str, expected: str, found: str) -> IdentityError:
    hint = "name the quantization, checkpoint and target that belong together, or another profile"
    return IdentityError(what, where=str(where), expected=expected, found=found, hint=hint, code="emit-identity")
