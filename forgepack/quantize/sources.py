"""The inputs of a quantization: checked against the profile and each other before any work, identified by digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.checkpoint import MODEL_FILE, Checkpoint, read_checkpoint
from forgepack.artifacts.files import hash_file, require_file
from forgepack.artifacts.state import FileState, file_states
from forgepack.artifacts.target import Target, read_target
from forgepack.artifacts.target_parts import TargetParts, find_target
from forgepack.artifacts.trace_identity import TraceIdentity
from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.drafter.batch import require_finite_rows
from forgepack.drafter.head import open_head
from forgepack.errors import IdentityError, MissingError, NumericsError, UsageError
from forgepack.profile import Profile

_PARTS = {
    "model_sha256": "drafter",
    "export": "target export",
    "head_sha256": "target's head",
    "embedding_sha256": "target's embedding",
    "tokenizer_sha256": "target's tokenizer",
}
# Without a second trace file every sixth sequence is held out: the sixth, the twelfth ...
SPLIT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a quantization reads. ``held_out`` is None when sequences of ``traces`` are split off instead."""

    checkpoint: Checkpoint
    target: Target
    traces: TraceSet
    held_out: TraceSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePaths:
    """Where the inputs of a quantization are; without ``held_out`` sequences of ``traces`` are split off."""

    checkpoint: Path
    target: TargetParts
    traces: Path
    held_out: Path | None = None


def open_sources(paths: SourcePaths, profile: Profile, *, hashed: bool = True) -> Sources:
    """Read the inputs; with ``hashed`` every byte of the checkpoint is compared with its lock.

    Raises UsageError for traces or folders that do not exist, and the readers' errors of each part.
    """
    for path in filter(None, (paths.traces, paths.held_out)):
        require_file(path)
    return Sources(
        target=read_target(find_target(paths.target)),
        traces=read_traces(paths.traces, profile.geometry),
        held_out=None if paths.held_out is None else read_traces(paths.held_out, profile.geometry),
        checkpoint=read_checkpoint(paths.checkpoint, profile, hashed=hashed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Which sequences calibrate and which are held out, by their index in their own file."""

    calibration: tuple[int, ...]
    held_out: tuple[int, ...]


def source_places(sources: Sources) -> dict[str, Path | None]:
    """Return role -> place of everything that is read: no output may stand there."""
    paths = sources.target.paths
    return {
        "the checkpoint": sources.checkpoint.root,
        "the traces": sources.traces.path,
        "the held-out traces": None if sources.held_out is None else sources.held_out.path,
        "the target's model": paths.model,
        "the target's build": paths.build,
        "the target's export": paths.export,
    }


def split_sequences(sources: Sources) -> Split:
    """Choose the sequences; UsageError when nothing would be left to hold out."""
    every = tuple(s.index for s in sources.traces.sequences)
    if sources.held_out is not None:
        if sources.held_out.digest == sources.traces.digest:
            where = str(sources.held_out.path)
            raise UsageError("the held-out traces are the calibration traces", where=where, hint="leave one out")
        return Split(calibration=every, held_out=tuple(s.index for s in sources.held_out.sequences))
    if len(every) < 2:
        raise UsageError(
            "one sequence can't be split into calibration and held-out rows",
            where=str(sources.traces.path),
            hint="give --held-out, or traces of two sequences or more",
        )
    chosen = {n for n in every if n % SPLIT == SPLIT - 1} or {every[-1]}
    return Split(calibration=tuple(n for n in every if n not in chosen), held_out=tuple(sorted(chosen)))


def check_rows(sources: Sources, split: Split) -> None:
    """Demand at least one walked block on either side: rows that are not there have no error."""
    held_out = sources.held_out or sources.traces
    for traces, chosen in ((sources.traces, split.calibration), (held_out, split.held_out)):
        if not any(traces.sequences[n].positions.size for n in chosen):
            raise NumericsError(
                "no recorded block in the sequences",
                where=f"{traces.path}: sequences {', '.join(map(str, chosen[:8]))}",
                hint="record longer sequences",
                code="traces-empty",
            )


def require_finite(sources: Sources, split: Split, profile: Profile) -> None:
    """Raise NumericsError for the first weight or embedding in use that is not finite, before any work.

    Weights are all of the checkpoint's, those that quantization leaves alone too: the package will hold them.
    """
    for name in sources.checkpoint.weights.tensors:
        sources.checkpoint.stored(name)
    tokens = {profile.geometry.mask_token}
    held_out = sources.held_out or sources.traces
    for traces, chosen in ((sources.traces, split.calibration), (held_out, split.held_out)):
        for n in chosen:
            sequence = traces.sequences[n]
            tokens.update(sequence.tokens[sequence.positions].tolist())
    used = np.array(sorted(tokens))
    require_finite_rows(sources.target.embedding.table()[used], used)


def identify(sources: Sources, profile: Profile) -> dict[str, Any]:
    """Return the digests of checkpoint and target as report.json records them.

    Raises IdentityError where target, traces and checkpoint do not belong together, MissingError without the
    target's export.
    """
    checkpoint, target = _identify_checkpoint(sources.checkpoint), _identify_target(sources.target, profile)
    for traces in filter(None, (sources.traces, sources.held_out)):
        if traces.identity is not None:
            _check_bound(traces, traces.identity, {**target, **checkpoint}, profile)
    return {"checkpoint": checkpoint, "target": target}


def _identify_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    lock = checkpoint.lock
    model = lock.file(MODEL_FILE)
    assert model is not None, "a lock covers every file of its profile"
    return {
        "repo": lock.repo,
        "commit": lock.commit,
        "adopted": lock.adopted,
        "lock_sha256": lock.digest,
        "model_sha256": model.sha256,
        "config_sha256": checkpoint.config.sha256,
    }


def _identify_target(target: Target, profile: Profile) -> dict[str, Any]:
    geometry = profile.geometry
    if target.head is None:
        where = str(target.paths.build)
        raise MissingError("the target's export is missing", where=where, hint="name it with --target-export")
    open_head(target.head, geometry)
    config, manifest, ids = str(target.config.path), str(target.manifest.path), target.tokenizer
    pairs: Mapping[str, tuple[str, object, object]] = {
        "hidden size": (config, geometry.hidden, target.config.hidden),
        "vocabulary": (config, geometry.vocab, target.config.vocab),
        "number of layers": (config, geometry.target_layers, target.config.layers),
        "list of taps": (manifest, list(geometry.taps), list(target.manifest.taps)),
        "block": (manifest, geometry.block, target.manifest.block),
        "embedding": (
            str(target.embedding.path),
            [geometry.vocab, geometry.hidden],
            list(target.embedding.shape),
        ),
        "number of token ids in use": (str(ids.path), profile.target.used_tokens, ids.size),
    }
    for what, (where, expected, found) in pairs.items():
        if expected != found:
            raise _foreign(f"the target's {what} is not the profile's", where, str(expected), str(found))
    return {
        "export": target.manifest.export,
        "manifest_sha256": target.manifest.sha256,
        "config_sha256": target.config.sha256,
        "head_sha256": hash_file(target.head.path)[1],
        "embedding_sha256": hash_file(target.embedding.path)[1],
        "tokenizer_sha256": target.tokenizer.sha256,
        "tokenizer_semantic_sha256": target.tokenizer.semantic_sha256,
    }


def _check_bound(traces: TraceSet, identity: TraceIdentity, found: Mapping[str, Any], profile: Profile) -> None:
    """Refuse traces that were recorded with another drafter, target or taps."""
    for key, part in _PARTS.items():
        recorded, here = getattr(identity, key), found[key]
        if recorded != here:
            what = f"the traces were recorded with another {part} than the given one"
            raise _foreign(what, f"{traces.path}: identity.{key}", f"{here}, the given one's", recorded)
    if identity.taps != profile.geometry.taps:
        where, expected = f"{traces.path}: identity.taps", str(list(profile.geometry.taps))
        raise _foreign("the traces were recorded at other taps", where, expected, str(list(identity.taps)))


def _foreign(what: str, where: str, expected: str, found: str) -> IdentityError:
    hint = "name the target, checkpoint and traces that belong together, or another profile"
    return IdentityError(what, where=where, expected=expected, found=found, hint=hint, code="quantize-identity")


def source_states(sources: Sources) -> tuple[FileState, ...]:
    """Return the state of every large input: what it is before the work it must be after, or the run is refused."""
    traces = [t.path for t in (sources.traces, sources.held_out) if t is not None]
    return file_states([sources.checkpoint.weights.path, sources.target.embedding.path, *traces])
