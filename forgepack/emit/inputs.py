"""The inputs of emission, judged against the profile and each other before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.checkpoint import Checkpoint
from forgepack.artifacts.export import build_faults, equal_layers, read_export, zero_files
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.locked import require_locked
from forgepack.artifacts.model_files import disagreements, read_model_files
from forgepack.artifacts.quant import Quant
from forgepack.artifacts.release_json import MODEL_FILES
from forgepack.artifacts.state import FileState, file_states
from forgepack.artifacts.target import Target, named_packages
from forgepack.artifacts.tree import walk
from forgepack.coreai_backend.reader import read_asset
from forgepack.emit.constant_spec import Array, Sources
from forgepack.emit.describe import Note, describe_checkpoint, describe_quantization, describe_target, gather
from forgepack.emit.table import MASK_ROW, MASK_SCALE
from forgepack.errors import ForgepackError, IdentityError, MissingError
from forgepack.profile import Profile

LICENCE_FILES = ("LICENSE", "NOTICE")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitInputs:
    """What emission reads; the target must come with its export."""

    quant: Quant
    checkpoint: Checkpoint
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The inputs by content, in the sidecar's form."""

    checkpoint: dict[str, Any]
    target: dict[str, Any]
    quantization: dict[str, Any]


def input_states(inputs: EmitInputs) -> tuple[FileState, ...]:
    """Return the state of every file that is read after it was judged: it must be the same when all is written."""
    checkpoint, head = inputs.checkpoint, inputs.target.head
    locked = [checkpoint.root / file.path for file in checkpoint.lock.files]
    paths = [inputs.quant.tensors.path, *locked, inputs.target.embedding.path]
    return file_states(paths + ([] if head is None else [head.path]))


def input_bytes(inputs: EmitInputs) -> int:
    """Return about how many bytes ``identify`` will read, for the display of progress."""
    paths = inputs.target.paths
    folders = [paths.build] + ([] if paths.export is None else [paths.export])
    files = sum(entry.size for folder in folders for entry in walk(folder))
    locked = sum(file.bytes for file in inputs.checkpoint.lock.files)
    return files + locked + inputs.quant.tensors.size + inputs.target.embedding.path.stat().st_size


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

    Every byte is read: the checkpoint's files against its lock, the quantized weights against their report, the
    target's head in its export against its own head package. Raises IdentityError for what does not belong, and the
    readers' errors.
    """
    if inputs.target.head is None:
        raise _no_export(inputs.target)
    for fault in target_faults(inputs.target, profile):
        raise fault
    _, _, target, package_head = gather(
        lambda: _check_checkpoint(inputs.checkpoint, profile, note),
        lambda: _check_quant_bytes(inputs.quant, note),
        lambda: describe_target(inputs.target, profile.geometry, note),
        lambda: _read_head_package(inputs.target),
        workers=4,
    )
    found = Identity(
        checkpoint=describe_checkpoint(inputs.checkpoint),
        target=target,
        quantization=describe_quantization(inputs.quant),
    )
    for what, where, expected, other in _bonds(inputs, profile, found):
        if expected != other:
            raise _foreign(what, where, str(expected), str(other))
    content = target["head"]["content_sha256"]
    if package_head not in (None, content):
        what = "the target's head package does not hold the head of its export: one of them is stale"
        raise _foreign(what, inputs.target.head_package, f"content {content}", f"content {package_head}")
    layers = {path: record["sha256"] for path, record in target["files"].items() if path.endswith(".safetensors")}
    for first, other in equal_layers(layers):
        what = "two files of the export hold the same bytes"
        raise _foreign(what, other, "content of its own", f"the bytes of {first}")
    return found


def target_faults(target: Target, profile: Profile) -> Iterator[ForgepackError]:
    """Yield what is wrong with the form of the target's files, and where files of model/ do not agree.

    The verifier judges by the same functions (rules PKG038, PKG039, PKG041, PKG043, TOK020 to TOK022, TOK024).
    """
    paths, geometry, pin = target.paths, profile.geometry, profile.target
    if paths.export is not None:
        export, faults = read_export(paths.export, walk(paths.export), layers=geometry.target_layers)
        yield from faults
        yield from (_foreign("a file holds zeros alone", path, "weights", "zeros") for path in zero_files(export))
    yield from build_faults(paths.build, walk(paths.build), named_packages(target.manifest))
    names = tuple(name for name in MODEL_FILES if os.path.lexists(paths.model / name))
    files, faults = read_model_files(paths.model, names)
    yield from faults
    for one in disagreements(
        files,
        target.tokenizer,
        rows=geometry.vocab,
        ends=pin.eos_tokens,
        used=pin.used_tokens,
        config=target.config.stated,
    ):
        what = f"{one.file} does not agree with the target's other files"
        yield _foreign(what, f"{paths.model / one.file}: {one.path}", one.expected, one.found)


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


def _bonds(inputs: EmitInputs, profile: Profile, found: Identity) -> Iterator[tuple[str, str, object, object]]:
    """Yield (what, where, expected, found) for everything that must be equal between profile and inputs."""
    report, target, geometry = inputs.quant.report, found.target, profile.geometry
    where = str(report.path)
    yield "the quantization is of another profile", where, profile.name, report.profile
    yield "the quantization is of another state of the profile", where, profile.digest, report.profile_sha256
    yield "the quantization is of another recipe", where, profile.recipe.variant, report.variant
    for key in ("repo", "commit", "lock_sha256", "model_sha256", "config_sha256"):
        what = f"the quantization is of another checkpoint ({key})"
        yield what, where, found.checkpoint[key], getattr(report, key)
    yield "the quantization is of another head", where, target["head"]["sha256"], report.head_sha256
    yield "the quantization is of another embedding", where, target["embedding"]["sha256"], report.embedding_sha256
    yield "the quantization is of another tokenizer", where, target["tokenizer"]["sha256"], report.tokenizer_sha256
    manifest, config = inputs.target.manifest, inputs.target.config
    where = str(manifest.path)
    yield "the target's taps are not the profile's", where, list(geometry.taps), list(manifest.taps)
    yield "the target's block is not the profile's", where, geometry.block, manifest.block
    where = str(config.path)
    yield "the target's hidden size is not the profile's", where, geometry.hidden, config.hidden
    yield "the target's vocabulary is not the profile's", where, geometry.vocab, config.vocab
    yield "the target's layers are not the profile's", where, geometry.target_layers, config.layers
    shape = [geometry.vocab, geometry.hidden]
    yield (
        "the embedding's shape is not the profile's",
        str(inputs.target.embedding.path),
        shape,
        (list(inputs.target.embedding.shape)),
    )
    head = inputs.target.head
    assert head is not None
    head_shape = [target["head"]["rows"], target["head"]["columns"]]
    yield "the head's shape is not the profile's", str(head.path), shape, head_shape


def _read_head_package(target: Target) -> str | None:
    """Return the digest of the head that the target's own package computes, None where it has no package."""
    package = target.head_package
    if not package.exists():
        return None
    return read_asset(read_asset_files(package), head=True, digests=False).require_head().digest.digest


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
