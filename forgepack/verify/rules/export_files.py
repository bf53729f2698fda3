"""PKG, the target's files: each file of export and build is of the form that its name promises, and no copy."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.aimodel import PROGRAM_FILE
from forgepack.artifacts.export import equal_layers, nonfinite_tensors, zero_files
from forgepack.verify.checks.coverage import SOURCES_LISTED, by_tools
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_EXPORT = "restore the export from the target's release"


@rule(
    "PKG040",
    title="no two files of the export hold the same bytes",
    fails="files of the export hold the same bytes",
    why="a copy under another layer's name has the right form and computes the wrong layer",
    remedy=_EXPORT,
    depth="hash",
    needs=("export_files", "digests"),
    after=("PKG038", "FMT"),
    since=2,
    closes="a copy of another layer passed",
)
def copies(pair: Pair) -> Iterator[Finding]:
    """The SHA-256 of each tensor file of the export is its own."""
    files = pair.export_files.value
    known = {name: pair.digests.value.get(files.root / name) for name in files.files}
    digests = {name: digest.sha256 for name, digest in known.items() if digest is not None}
    for first, other in equal_layers(digests):
        where = pair.place(files.root / other)
        yield differing("file of the export", where, expected="content of its own", found=f"the bytes of {first}")


@rule(
    "PKG041",
    title="no tensor file of the export is zeros alone",
    fails="a tensor file of the export is zeros alone",
    why="a download that left a hole has header and size, and no weights",
    remedy=_EXPORT,
    depth="hash",
    needs=("export_files",),
    after=("FMT",),
    since=2,
    closes="a layer of zeros passed",
)
def zeros(pair: Pair) -> Iterator[Finding]:
    """Sixteen looks at the data of each tensor file see a byte that is not zero; with --hub nothing is read."""
    if "hub" in pair.sources.named:
        return  # of its weights the headers came alone
    for path in zero_files(pair.export_files.value):
        yield differing("data of the file", pair.place(path), expected="weights", found="zeros alone")


@rule(
    "PKG060",
    title="no value of the export's layers is NaN or infinite",
    fails="values of the export's layers are NaN or infinite",
    why="one such value spreads over all that the layer computes, and no header shows it",
    remedy=_EXPORT,
    depth="hash",
    needs=("export_files",),
    after=("FMT", "PKG041"),
    since=2,
    closes="a layer of NaN passed",
)
def finite(pair: Pair) -> Iterator[Finding]:
    """Every floating value of the layers' files is finite; weights on the hub are not read."""
    if "hub" in pair.sources.named:
        return
    for path, tensor, count, first in nonfinite_tensors(pair.export_files.value):
        found = f"{count} values, first at flat index {first}"
        yield differing(tensor, pair.place(path, tensor), expected="finite values", found=found)


@rule(
    "PKG061",
    title="no two packages of the target's build hold the same program",
    fails="packages of the target's build hold the same program",
    why="a copy under another chunk's name computes that chunk's layers twice, and its own never",
    remedy="restore the build from the target's release, or build the target again",
    severity="warning",
    depth="hash",
    needs=("manifest", "digests"),
    after=("CTR087", "PKG013", "TAP011"),
    since=2,
)
def same_programs(pair: Pair) -> Iterator[Finding]:
    """The program's SHA-256 of each package that the manifest names is its own, but for stand-ins without weights."""
    manifest, root = pair.manifest.value, pair.sources.target.build
    programs = {name: root / name / PROGRAM_FILE for name in (manifest.head_file, *(c.file for c in manifest.chunks))}
    known = {name: pair.digests.value.get(path) for name, path in programs.items()}
    for first, other in equal_layers({name: digest.sha256 for name, digest in known.items() if digest is not None}):
        where = pair.place(programs[other])
        yield differing("program of the build", where, expected="a program of its own", found=f"that of {first}")


@rule(
    "PKG042",
    title="checkpoint and quantized drafter hold no file that nothing lists",
    fails="checkpoint or quantized drafter holds files that nothing lists",
    why="a file that no lock and no report covers may be taken for a part of them",
    remedy="remove the file, or keep it elsewhere",
    severity="warning",
    each_of=("checkpoint_tree", "quant_tree"),
    since=2,
)
def unlisted_sources(pair: Pair) -> Iterator[Finding]:
    """Every file of the checkpoint is in its lock or taken by the profile, and a quantization has its two files."""
    hub = pair.profile.hub
    locked = {file.path for file in pair.lock.value.files} if pair.lock.available else set()
    listed = {"checkpoint": {*locked, *hub.files, *hub.optional_files}, "quant": set()}
    trees = (("checkpoint", pair.checkpoint_tree), ("quant", pair.quant_tree))
    for role, tree in trees:
        for entry in tree.value if tree.available else ():
            known = entry.path in listed[role] or entry.path in SOURCES_LISTED[role]
            if entry.kind != "folder" and not known and by_tools(entry.path) is None:
                yield differing(f"file of {role}", f"{role}/{entry.path}", expected="a listed file", found=entry.path)


ROWS = (
    reported_row(
        "PKG038",
        demand=(
            "lm_head and, where one layer is there, two files for each of the profile's layers, each with a tensor."
        ),
        title="the export holds the files of its target's layers, all of them and no others",
        fails="the export lacks files of its target's layers, or holds others",
        why="a layer that was lost, or one of another target, leaves an export that is not what was built from it",
        remedy=_EXPORT,
        each_of=("export_files",),
        codes=("export-layers", "export-empty"),
        after=("CTR045",),
        since=2,
        closes="an export without one of its layers passed",
    ),
    reported_row(
        "PKG039",
        demand=(
            "model.safetensors.index.json, where there is one, names files that are there and every tensor in them."
        ),
        title="an index beside tensor files names each of their tensors in its file",
        why="a loader reads what the index names: a tensor that it leaves out, or looks for elsewhere, is lost",
        remedy=_EXPORT,
        each_of=("export_files",),
        codes=("export-index",),
        after=("PKG038", "FMT"),
        since=2,
        closes="an index that names other tensors than its files hold passed",
    ),
    reported_row(
        "PKG043",
        demand=(
            "Each file of export and build that no reader of its own has holds bytes, and an array a header "
            "that fits."
        ),
        title="no file of the target is empty, and arrays have the size of their headers",
        fails="a file of the target is empty or not as long as its header says",
        why="an empty file is a copy that failed; whatever reads it goes on without it",
        remedy="restore the file from the target's release",
        each_of=("build_files",),
        codes=("empty-file", "array"),
        after=("CTR046",),
        since=2,
        closes="a pointer or a page in place of a file of the build passed",
    ),
)
