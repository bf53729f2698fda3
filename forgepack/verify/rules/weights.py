"""WGT: which tensors there are, of which type and shape, and where their values come from."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.checkpoint import tensor_faults
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.canonical import sha256_hex
from forgepack.errors import ForgepackError
from forgepack.facts.target import embedding_facts, mask_row_facts
from forgepack.geometry import Shape, checkpoint_tensors, codebook_tensors, quant_tensors
from forgepack.verify.checks.binding import compared
from forgepack.verify.checks.faults import finding_of
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_FILES = ("selector", "checkpoint", "quant")
Expected = dict[str, tuple[str, Shape]]
_NARROW = {("BF16", "F16"): "float16 overflows where this drafter's BF16 does not"}


def _closed_sets(pair: Pair) -> Iterator[tuple[SafetensorsFile, Expected]]:
    """Yield each tensor file that can be read with the closed set of tensors that it must hold."""
    geometry = pair.profile.geometry
    if pair.checkpoint.available:
        yield pair.checkpoint.value, {n: ("BF16", s) for n, s in checkpoint_tensors(geometry).items()}
    if pair.selector.available:
        yield pair.selector.value, {n: ("BF16", s) for n, s in codebook_tensors(geometry).items()}
    if pair.quant.available:
        yield pair.quant.value, quant_tensors(geometry)


def _faults(pair: Pair, *codes: str) -> Iterator[ForgepackError]:
    for file, expected in _closed_sets(pair):
        yield from (err for err in tensor_faults(file, expected) if err.code in codes)


@rule(
    "WGT001",
    title="no tensor is missing",
    fails="tensors are missing",
    why="a loader that skips what it does not find leaves the weight random or zero",
    remedy="restore the file from its source",
    each_of=_FILES,
)
def missing(pair: Pair) -> Iterator[Finding]:
    """Checkpoint, selector and quantized drafter hold every tensor that the profile's geometry names."""
    for err in _faults(pair, "tensor-missing"):
        yield finding_of(err, pair)


@rule(
    "WGT002",
    title="no tensor is unexpected",
    fails="there are unexpected tensors",
    why="a tensor under another name is a scheme that this tool does not implement, or a weight that is skipped",
    remedy="restore the file from its source; a drafter must not have a head or an embedding of its own",
    each_of=_FILES,
)
def unexpected(pair: Pair) -> Iterator[Finding]:
    """Checkpoint, selector and quantized drafter hold no tensor beyond those of the profile's geometry."""
    for err in _faults(pair, "tensor-unexpected"):
        yield finding_of(err, pair)


@rule(
    "WGT003",
    title="every tensor has the shape that the geometry demands",
    why="another shape is another model",
    remedy="restore the file from its source, or name the profile of this drafter",
    each_of=_FILES,
)
def shapes(pair: Pair) -> Iterator[Finding]:
    """Shapes of all tensors follow from the profile's geometry."""
    for err in _faults(pair, "tensor-shape"):
        yield finding_of(err, pair)


@rule(
    "WGT004",
    title="every tensor has the element type that the contract demands",
    why="a narrowed type loses range or precision without changing a shape",
    remedy="restore the file from its source; never convert it",
    each_of=_FILES,
)
def dtypes(pair: Pair) -> Iterator[Finding]:
    """Checkpoint and codebooks are BF16, the quantized drafter F16, U8 and I8."""
    for file, expected in _closed_sets(pair):
        for name, (dtype, _) in expected.items():
            info = file.tensors.get(name)
            if info is not None and info.dtype != dtype:
                message = _NARROW.get((dtype, info.dtype), "")
                where = pair.place(file.path, name)
                yield differing(f"element type of {name}", where, expected=dtype, found=info.dtype, message=message)


@rule(
    "WGT005",
    title="the config's element type is that of the tensors",
    why="a loader casts the weights to the type that the config names",
    remedy="restore config.json and model.safetensors from one source",
    each_of=("config", "checkpoint_config"),
)
def config_dtype(pair: Pair) -> Iterator[Finding]:
    """``dtype`` of the drafter's config, where stated, is bfloat16, as its tensors are."""
    for source in (pair.config, pair.checkpoint_config):
        if not source.available:
            continue
        for fault in source.value.faults(pair.profile.geometry):
            if fault.code == "dtype":
                where = pair.place(source.value.path, fault.path)
                yield differing("element type in the config", where, expected=fault.expected, found=fault.found)


@rule(
    "WGT017",
    title="the embedding is the one that the pair was bound to",
    fails="the target's embedding is NOT the one that the pair was bound to",
    why="anchor and mask rows come from it; rows of another training draft noise",
    remedy="restore embed_tokens_fp16.npy from the target's release",
    depth="hash",
    needs=("binding", "embedding", "digests"),
    after=(
        "CTR060",
        "PKG015",
        "WGT018",
    ),
)
def bound_embedding(pair: Pair) -> Iterator[Finding]:
    """Shape, type, size and SHA-256 of the embedding are those that the sidecar states."""
    table = pair.embedding.value
    digest = pair.digests.value.get(table.path)
    size, sha256 = (None, None) if digest is None else (digest.bytes, digest.sha256)
    return compared(pair, "target", embedding_facts(table, size, sha256))


@rule(
    "WGT020",
    title="the selector's codebooks are the checkpoint's",
    why="the codebooks choose among the head's best tokens; others choose at random",
    remedy="copy them again: forgepack emit does",
    depth="lineage",
    needs=("selector", "checkpoint"),
    after=(
        "SRC018",
        "NUM00",
    ),
)
def selector(pair: Pair) -> Iterator[Finding]:
    """Both codebooks hold the bytes of the checkpoint's tensors of the same names."""
    package, checkpoint = pair.selector.value, pair.checkpoint.value
    for name in codebook_tensors(pair.profile.geometry):
        if name not in package.tensors or name not in checkpoint.tensors:
            continue
        expected, found = (sha256_hex(file.raw(name).data) for file in (checkpoint, package))
        if expected != found:
            yield differing(f"tensor {name}", pair.place(package.path, name), expected=expected, found=found)


ROWS = (
    row(
        "WGT018",
        lambda pair: compared(pair, "target", mask_row_facts(pair.embedding.value, pair.profile.geometry)),
        demand="Mask token and digest of its row are those that the sidecar states.",
        title="the target's embedding of the mask token is the one that the pair was bound to",
        fails="the mask token's embedding is NOT the one that the pair was bound to",
        why="the package has this row baked in: another row in the target means another target",
        remedy="use the target that the package was emitted for, or emit it for this one",
        needs=("binding", "embedding"),
        after=(
            "PKG015",
            "WGT016",
        ),
    ),
)
