"""Describe files of arrays: safetensors by role, traces, NumPy files."""

from __future__ import annotations

from collections import Counter

import numpy as np

from forgepack.artifacts.checkpoint import MAX_NAMED, tensor_faults
from forgepack.artifacts.npz import NpzFile, read_npz
from forgepack.artifacts.safetensors_file import SafetensorsFile, inspect_safetensors
from forgepack.artifacts.target import read_embedding
from forgepack.artifacts.trace_identity import TraceIdentity
from forgepack.artifacts.traces import TraceSet, read_traces
from forgepack.errors import CorruptError
from forgepack.geometry import Geometry, Shape, checkpoint_tensors, codebook_tensors, quant_tensors
from forgepack.profile import Profile
from forgepack.release.inspect.notes import Notes

_DEEP_HEAD = 64 << 20


def tensor_facts(notes: Notes, file: SafetensorsFile) -> None:
    """Note how many tensors of which types a file holds, and which profile's they are."""
    infos = file.tensors.values()
    types = Counter(info.dtype for info in infos)
    told = ", ".join(f"{count} {dtype}" for dtype, count in sorted(types.items()))
    notes.facts["tensors"] = f"{len(file.tensors)} ({told}), {sum(i.end - i.begin for i in infos)} bytes"
    if file.metadata:
        notes.facts["metadata"] = ", ".join(f"{key}: {file.metadata[key]}" for key in sorted(file.metadata))[:300]
    notes.identity["header"] = file.header_sha256
    role, names = _role(file, notes.profiles)
    if role is not None:
        notes.facts["holds"] = role
        notes.fitting(names)
    if not names:
        _tell_differences(notes, file)


def _role(file: SafetensorsFile, profiles: tuple[Profile, ...]) -> tuple[str | None, list[str]]:
    """Return what a set of tensors is, and the profiles whose geometry it has."""
    found = {name: (info.dtype, info.shape) for name, info in file.tensors.items()}
    roles: dict[str, list[str]] = {}
    for profile in profiles:
        for role, expected in _lists(profile.geometry):
            if found == expected:
                roles.setdefault(role, []).append(profile.name)
    if roles:
        role = next(iter(roles))
        return role, roles[role]
    return next((role for role, mark in _MARKS if any(mark in name for name in found)), None), []


def _tell_differences(notes: Notes, file: SafetensorsFile) -> None:
    """Write down what differs from a profile's list of tensors, where the file is meant to be of one.

    That is the checkpoint's list of the profile that its configuration fits, else a list of which the file has at
    least three quarters.
    """
    found = {name: (info.dtype, info.shape) for name, info in file.tensors.items()}
    fitting = str(notes.facts.get("geometry of profile", "")).split(", ")
    meant = [(p.name, _lists(p.geometry)[0][1]) for p in notes.profiles if p.name in fitting]
    lists = meant or [(p.name, expected) for p in notes.profiles for _, expected in _lists(p.geometry)]
    same, name, expected = max(
        ((len(found.items() & expected.items()), name, expected) for name, expected in lists),
        key=lambda entry: (entry[0] / len(entry[2]), entry[1]),
        default=(0, "", {}),
    )
    if not meant and 4 * same < 3 * len(expected):
        return
    faults = list(tensor_faults(file, expected))
    notes.facts["compared with"] = f"the {len(expected)} tensors of profile {name}: {len(faults)} differ"
    for fault in faults[:MAX_NAMED]:
        notes.fault(fault)
    if len(faults) > MAX_NAMED:
        notes.fault(CorruptError(f"{len(faults) - MAX_NAMED} more tensors differ", code="tensor-more"))


def _lists(g: Geometry) -> tuple[tuple[str, dict[str, tuple[str, Shape]]], ...]:
    """Return the closed lists of tensors that a geometry leads to, each with what holds it."""
    return (
        ("a drafter checkpoint's weights", {n: ("BF16", s) for n, s in checkpoint_tensors(g).items()}),
        ("a quantized drafter's tensors", quant_tensors(g)),
        ("the selector's codebooks", {n: ("BF16", s) for n, s in codebook_tensors(g).items()}),
        ("a LUT4 output head", _head_tensors(g.vocab, g.hidden)),
    )


_MARKS = (
    ("a quantized drafter's tensors, of another geometry", "fc.weight.idx"),
    ("a drafter checkpoint's weights, of another geometry", "candidate_selector.hidden_projection"),
    ("the selector's codebooks, of another geometry", "candidate_selector.predecessor_codebook"),
    ("an output head, of another geometry", "lm_head."),
)


def _head_tensors(vocab: int, hidden: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {
        "lm_head.lut": ("F16", (16, 1)),
        "lm_head.idx": ("U8", (vocab, hidden)),
        "lm_head.scale": ("F16", (vocab,)),
    }


def head_facts(notes: Notes, file: SafetensorsFile) -> None:
    """Note a head's form and, where it is small or all bytes are asked for, the digest of its content."""
    from forgepack.coreai_backend.head_content import content_of_safetensors

    tensor_facts(notes, file)
    if file.size <= _DEEP_HEAD or notes.deep:
        content = notes.attempt(lambda: content_of_safetensors(file).digest())
        if content is not None:
            notes.facts["head"] = f"LUT4, {content.rows} rows of {content.columns}"
            notes.identity["head, by content"] = content.digest


def describe_safetensors(notes: Notes) -> None:
    """Note header and digest of a safetensors file, and every fault of its layout."""
    notes.title = "a safetensors file"
    file, faults = inspect_safetensors(notes.path)
    for fault in faults:
        notes.fault(fault)
    if file is None:
        return
    if not faults and {"lm_head.idx", "lm_head.lut"} <= set(file.tensors):
        head_facts(notes, file)
    else:
        tensor_facts(notes, file)
    if "holds" in notes.facts:
        notes.title = f"a safetensors file: {notes.facts['holds']}"
    notes.hash(notes.path)


def describe_npz(notes: Notes) -> None:
    """Note a NumPy archive's arrays; traces as such."""
    archive = notes.attempt(lambda: read_npz(notes.path))
    if archive is None or not any(name.startswith("tokens_") for name in archive.arrays):
        notes.title = "a NumPy archive"
        if archive is not None:
            names = sorted(archive.arrays)
            notes.facts["arrays"] = f"{len(names)}: {', '.join(names[:6])}"
            notes.hash(notes.path)
        return
    notes.title = "recorded traces"
    notes.hash(notes.path)
    _trace_shapes(notes, archive)
    fits = {profile.name: traces for profile in notes.profiles if (traces := _as_traces(notes, profile)) is not None}
    notes.fitting(fits)
    if fits:
        _trace_facts(notes, next(iter(fits.values())))


def _as_traces(notes: Notes, profile: Profile) -> TraceSet | None:
    """Return the traces if they are of a profile's geometry."""
    try:
        return read_traces(notes.path, profile.geometry)
    except CorruptError as err:
        if err.code not in ("traces-form", "traces-range"):
            notes.fault(err)
        return None


def _trace_shapes(notes: Notes, archive: NpzFile) -> None:
    count = sum(name.startswith("tokens_") for name in archive.arrays)
    shape = archive.arrays["feats_0"].shape if "feats_0" in archive.arrays else ()
    notes.facts["sequences"] = count
    if len(shape) == 3:
        notes.facts["features"] = f"{shape[1]} taps of {shape[2]}"


def _trace_facts(notes: Notes, traces: TraceSet) -> None:
    accepted = np.concatenate([s.accepted for s in traces.sequences])
    notes.facts["tokens"] = sum(len(s.tokens) for s in traces.sequences)
    notes.facts["recorded blocks"] = traces.blocks
    if beyond := sum(s.beyond for s in traces.sequences):
        notes.facts["rows beyond the tokens"] = f"{beyond}, which nothing uses"
    if accepted.size:
        notes.facts["recorded acceptance"] = f"{accepted.mean():.3f} of {traces.geometry.block - 1} per block"
    notes.facts["bound"] = "no: nothing says what they were recorded with"
    if traces.identity is not None:
        _identity_facts(notes, traces.identity)


def _identity_facts(notes: Notes, identity: TraceIdentity) -> None:
    notes.facts["bound"] = f"to target {identity.export}, mask scale {identity.mask_scale:g}"
    notes.facts["split"] = str(identity.raw.get("split"))
    notes.identity |= {
        "recorded with weights": identity.model_sha256,
        "recorded with head": identity.head_sha256,
        "recorded with tokenizer": identity.tokenizer_sha256,
    }


def describe_npy(notes: Notes) -> None:
    """Note a NumPy array's type and shape; an embedding table as such."""
    notes.title = "a NumPy array"
    try:
        embedding = read_embedding(notes.path)
    except CorruptError as err:
        if err.code != "npy-form":
            notes.fault(err)
            return
        notes.facts["array"] = err.found
    else:
        notes.facts["array"] = f"float16 {list(embedding.shape)}, C order"
        shapes = {(p.geometry.vocab, p.geometry.hidden): p.name for p in notes.profiles}
        if embedding.shape in shapes:
            notes.title = "a target's embedding table"
            notes.fitting([shapes[embedding.shape]])
    notes.hash(notes.path)
