"""PKG: the Core AI package is complete, is what its sidecar says, and is not another kind of package."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.aimodel import COMPILED_SUFFIXES, SUFFIX
from forgepack.artifacts.mlpackage import rounded_to_nearest
from forgepack.artifacts.tree import JUNK
from forgepack.verify.checks.faults import reported, reported_row
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_DEBUG_MARKS = ("nohead", "headless", "dbg", "debug")
_DOCUMENTS = (
    *(".md", ".txt", ".pdf", ".lock.json"),
    *(".png", ".jpg", ".jpeg", ".svg", ".gif"),
    *(".gitattributes", ".gitkeep"),
)


@rule(
    "PKG003",
    title="the package is a source asset, not a compiled one",
    fails="the package is a compiled asset, not a source asset",
    why="a compiled asset belongs to one device and system, and its weights can't be proven",
    remedy="ship the .aimodel; the device compiles it",
    codes=("asset-kind",),
)
def source_asset(pair: Pair) -> Iterator[Finding]:
    """The drafter folder holds an .aimodel, and compiled forms never alone."""
    yield from reported(pair, "PKG003")
    layout = pair.layout
    if layout.compiled and not layout.assets:
        for name in layout.compiled:
            yield differing("package", pair.place(layout.root / name), expected=layout.asset.name, found=name)


@rule(
    "PKG006",
    title="no Core ML package stands in place of the Core AI package",
    fails="a Core ML package is in place of the Core AI package",
    why="the Core ML build shares stem and sidecar name, was quantized otherwise, and can't be a substitute",
    remedy="use the folder that forgepack emit wrote; keep Core ML builds elsewhere",
    codes=("coreml-package", "coreml-sidecar"),
)
def core_ml(pair: Pair) -> Iterator[Finding]:
    """No Core ML model, sidecar or quantization is in the package's place or beside it under its stem."""
    yield from reported(pair, "PKG006")
    layout = pair.layout
    for name in layout.coreml:
        where = pair.place(layout.root / name)
        yield differing("package", where, expected=layout.asset.name, found=f"{name}, a Core ML package")
    if pair.quant.available and rounded_to_nearest(pair.quant.value.metadata):
        where, found = (
            pair.place(pair.quant.value.path, "__metadata__.method"),
            "rtn, as Core ML builds are made from",
        )
        yield differing("quantized drafter", where, expected="a quantization by GPTQ", found=found)


@rule(
    "PKG007",
    title="the package is not a headless or debug build",
    fails="the package is a headless or debug build",
    why="a package without logits can't draft, one with extra outputs is slower and was not measured",
    remedy="emit the release package",
)
def no_debug_build(pair: Pair) -> Iterator[Finding]:
    """The package's name carries no mark of a headless or debug build."""
    for name in pair.layout.assets:
        marks = [m for m in _DEBUG_MARKS if m in name.removesuffix(SUFFIX).lower().split("_")]
        if marks:
            where = pair.place(pair.layout.root / name)
            yield differing("package", where, expected="a release build", found=f"a {marks[0]} build by its name")


@rule(
    "PKG008",
    title="the package has the profile's name, and is the only one",
    why="runtimes find the drafter by this stem; a second package is taken by mistake",
    remedy="rename or remove what does not belong",
    after=("PKG006", "PKG003", "PKG007"),
)
def package_name(pair: Pair) -> Iterator[Finding]:
    """The folder holds exactly one asset, named as the profile says."""
    layout = pair.layout
    expected = f"{layout.expected}{SUFFIX}"
    for name in layout.assets:
        if name != expected:
            yield differing("package", pair.place(layout.root / name), expected=expected, found=name)


@rule(
    "PKG010",
    title="the folder holds the package and nothing else that runs",
    fails="the folder holds other things that run beside the package",
    why="weights or models that no digest covers are shipped unverified and may be loaded by mistake",
    remedy="remove the file, or keep it outside the drafter folder",
    after=("PKG006", "PKG008"),
)
def closed_folder(pair: Pair) -> Iterator[Finding]:
    """Apart from documents, pictures and hidden files the drafter folder holds the package's files alone."""
    layout = pair.layout
    for entry in pair.tree.value:
        top, _, rest = entry.path.partition("/")
        listed = top in layout.names if not rest else top == layout.asset.name
        other = top in layout.assets or top in layout.coreml or top in layout.compiled  # reported by their rules
        if listed or other or entry.kind == "folder" or JUNK.search(entry.path):
            continue
        if not entry.path.lower().endswith(_DOCUMENTS):
            where = pair.place(layout.root / entry.path)
            yield differing(
                "file of the drafter folder", where, expected="only the package's files", found=entry.path
            )


@rule(
    "PKG011",
    title="an asset holds its three files and nothing else",
    fails="an asset lacks one of its three files, or holds others",
    why="no hash of the asset covers a further file",
    remedy="remove the file, or emit the package again",
    needs=("asset",),
)
def closed_asset(pair: Pair) -> Iterator[Finding]:
    """main.mlirb, main.hash and metadata.json are all that the asset's folder holds, junk aside."""
    asset = pair.asset.value
    for name in asset.extra:
        if not JUNK.search(name):
            where = pair.place(asset.root / name)
            yield differing("file of the asset", where, expected="main.mlirb, main.hash, metadata.json", found=name)


@rule(
    "PKG035",
    title="the target's build names no compiled package",
    fails="the target's build names a compiled package",
    why="the runtime loads a compiled package in place of the asset that was verified; nothing proves its content",
    remedy="nothing, if the compiled packages are meant; their bytes are bound, what they compute is not checked",
    severity="note",
    needs=("manifest", "build_tree"),
    since=2,
)
def no_compiled_packages(pair: Pair) -> Iterator[Finding]:
    """No chunk or head of the manifest names ``compiled``, and the build holds no compiled package."""
    manifest = pair.manifest.value
    top = {entry.path for entry in pair.build_tree.value if "/" not in entry.path}
    parts = {f"chunks[{n}]": chunk for n, chunk in enumerate(manifest.raw["chunks"])} | {"head": manifest.raw["head"]}
    named = {part: raw["compiled"] for part, raw in parts.items() if raw.get("compiled") is not None}
    for part, name in named.items():
        where = pair.place(manifest.path, f"{part}.compiled")
        found = f"{name}, {'which is there' if name in top else 'which is not there'}"
        yield differing("compiled package", where, expected="none", found=found)
    for name in sorted(top - set(map(str, named.values()))):
        if name.endswith(COMPILED_SUFFIXES):
            yield differing("compiled package", pair.place(manifest.path.parent / name), expected="none", found=name)


ROWS = (
    reported_row(
        "PKG001",
        demand="Each file that package, target, and given sources must hold exists.",
        title="every required file is there",
        fails="required files are missing",
        why="a loader that finds a part missing aborts, or goes on without it",
        remedy="restore the missing file; forgepack emit writes all of a package's",
        codes=("missing",),
        after=("PKG006", "PKG003", "CTR045"),
    ),
    reported_row(
        "PKG002",
        demand="No asset of drafter or target is a file.",
        title="each package is a folder",
        why="a file in place of a package folder is an archive that was not unpacked, or a failed copy",
        remedy="unpack or copy the whole folder",
        codes=("not-a-directory",),
    ),
    reported_row(
        "PKG004",
        demand="main.hash of each asset has exactly 32 bytes.",
        title="main.hash is the raw 32 bytes of a SHA-256",
        why="a hash in another form was written by another tool and is compared with nothing",
        remedy="emit the package again",
        codes=("aimodel-hash-format",),
    ),
    reported_row(
        "PKG005",
        demand="AssetVersion in metadata.json of each asset is the known one.",
        title="each asset is of the version that this tool reads",
        why="another version may hold other files and other meanings",
        remedy="use a forgepack that knows this version, or emit the package again",
        codes=("aimodel-version",),
    ),
)
