"""PKG, the program's part: bytes, entry points and operations of the packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from forgepack.artifacts.aimodel import HASH_FILE, PROGRAM_FILE, AssetFiles
from forgepack.geometry import Geometry
from forgepack.json_values import equal_json, lookup
from forgepack.verify.checks.binding import against, bound, must_state, stated_at
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.files import file_differences
from forgepack.verify.checks.metadata import metadata_differences, sidecar_digests
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


@rule(
    "PKG009",
    title="the sidecar lists the entry points that the geometry demands",
    why="the runtime binds its buffers by these names; without logits nothing is drafted",
    remedy="emit the package again",
    needs=("sidecar",),
)
def listed_entries(pair: Pair) -> Iterator[Finding]:
    """Entries names draft and the prefill entry point, inputs and outputs in order, logits among them."""
    from forgepack.emit.graph import entries

    expected, found = entries(pair.profile.geometry), pair.sidecar.value.get("entries")
    for name in sorted({*expected, *(found if isinstance(found, dict) else {})}):
        for side in ("inputs", "outputs"):
            path = f"{name}.{side}"
            wanted, stated = lookup(expected, path), lookup(found, path)
            if not equal_json(stated, wanted):
                where = pair.place(pair.layout.sidecar, f"entries.{path}")
                message = _entry_fault(wanted, stated)
                yield differing(f"{side} of {name}", where, expected=wanted, found=stated, message=message)


def _entry_fault(wanted: Any, stated: Any) -> str:
    if not isinstance(wanted, list) or not isinstance(stated, list):
        return ""
    if "logits" in wanted and "logits" not in stated:
        return "a headless package: no output named logits"
    missing = [name for name in wanted if name not in stated]
    extra = [name for name in stated if name not in wanted]
    return f"missing {missing}, unexpected {extra}" if missing or extra else "the same names in another order"


@rule(
    "PKG012",
    title="main.hash is the digest of the package's program",
    fails="main.hash is NOT the digest of the package's program",
    why="the runtime does not check it: a flipped bit or an edited weight is loaded in silence",
    remedy="restore the package from its source, or emit it again",
    depth="hash",
    needs=("asset", "digests"),
)
def program_hash(pair: Pair) -> Iterator[Finding]:
    """main.hash of the drafter's asset is the SHA-256 of its main.mlirb."""
    return _hash_fault(pair, pair.asset.value)


@rule(
    "PKG013",
    title="main.hash of each of the target's packages is the digest of its program",
    why="a damaged target package accepts other tokens than the one that was released",
    remedy="restore the package from the target's release",
    depth="hash",
    needs=("packages", "digests"),
)
def target_hashes(pair: Pair) -> Iterator[Finding]:
    """main.hash of head and chunk packages is the SHA-256 of their main.mlirb."""
    for _, files in sorted(pair.packages.value.items()):
        yield from _hash_fault(pair, files)


def _hash_fault(pair: Pair, files: AssetFiles) -> Iterator[Finding]:
    found = pair.digests.value.get(files.program)
    if found is not None and found.sha256 != files.stated_sha256:
        where = pair.place(files.program)
        yield differing("digest of the program", where, expected=files.stated_sha256, found=found.sha256)


@rule(
    "PKG018",
    title="the program's entry points have the names, inputs and outputs that the geometry demands",
    why="the sidecar only states what the program should be; the runtime calls what it is",
    remedy="emit the package again",
    depth="lineage",
    needs=("program",),
)
def signatures(pair: Pair) -> Iterator[Finding]:
    """Entry points are the two of the geometry, each port float16 of its name and shape, in order."""
    expected = expected_ports(pair.profile.geometry)
    found = {function.name: function for function in pair.program.value.program.functions}
    where = pair.place(pair.layout.asset)
    for name in sorted({*expected, *found}):
        if name not in expected or name not in found:
            sides = ("present", "absent") if name in expected else ("absent", "present")
            yield differing(f"entry point {name}", where, expected=sides[0], found=sides[1])
            continue
        for side, wanted in expected[name].items():
            ports = [(port.name, port.dtype, port.shape) for port in getattr(found[name], side)]
            yield from _port_differences(pair, f"{name}.{side}", wanted, ports)


Ports = list[tuple[str, str, tuple[int, ...]]]


def expected_ports(geometry: Geometry) -> dict[str, dict[str, Ports]]:
    """Return name, type and shape of every port by entry point and side."""
    from forgepack.emit.graph import draft_inputs, draft_outputs, prefill_inputs, prefill_outputs

    sides = {
        "draft": {"inputs": draft_inputs(geometry), "outputs": draft_outputs(geometry)},
        geometry.prefill_entry: {"inputs": prefill_inputs(geometry), "outputs": prefill_outputs(geometry)},
    }
    return {
        name: {side: [(port, "F16", shape) for port, shape in ports] for side, ports in both.items()}
        for name, both in sides.items()
    }


def _port_differences(pair: Pair, subject: str, expected: Ports, found: Ports) -> Iterator[Finding]:
    for number, (wanted, port) in enumerate(zip_longest(expected, found)):
        if wanted != port:
            where = pair.place(pair.layout.asset, f"{subject}[{number}]")
            yield differing(subject, where, expected=_port(wanted), found=_port(port))


def _port(port: tuple[str, str, tuple[int, ...]] | None) -> str:
    return "none" if port is None else f"{port[0]} {port[1]}{list(port[2])}"


@rule(
    "PKG019",
    title="the program's operations are those that this tool emits",
    why="an added, missing or re-wired operation computes another drafter with the same weights",
    remedy="emit the package again; a package of other tools can't be proven",
    depth="lineage",
    needs=("comparison",),
    codes=("foreign-graph",),  # depth run gives up for the reason that stands here
    after=("PKG018",),
)
def operations(pair: Pair) -> Iterator[Finding]:
    """Operations, wiring, inline numbers and places of constants are those of the emitted program."""
    for difference in pair.comparison.value.differences:
        if difference.kind != "declaration":
            where = pair.place(pair.layout.asset, difference.where)
            subject = f"{difference.kind} of the program"
            yield differing(subject, where, expected=difference.expected, found=difference.found)


@rule(
    "PKG020",
    title="the target's packages offer the entry points that the manifest names",
    why="a missing entry point is found at the first call, or another is taken in its place",
    remedy="restore the package from the target's release",
    depth="lineage",
    needs=("manifest", "target_programs"),
)
def target_entries(pair: Pair) -> Iterator[Finding]:
    """Each chunk's program has exactly the entry points of its manifest entry."""
    manifest = pair.manifest.value
    for number, chunk in enumerate(manifest.chunks):
        reading = pair.target_program(chunk.file)
        found = sorted(f.name for f in reading.program.functions)
        if found != sorted(set(chunk.entries)):
            where = pair.place(manifest.path, f"chunks[{number}].entries")
            yield differing(f"entry points of {chunk.file}", where, expected=sorted(chunk.entries), found=found)


@rule(
    "PKG014",
    title="every file of the package is the one that its sidecar was written for",
    fails="files of the package are NOT those that its sidecar was written for",
    why="a sidecar beside another package vouches for weights that are not there",
    remedy="restore the package from its source, or emit it again",
    depth="hash",
    needs=("binding", "digests"),
    after=(
        "PKG012",
        "PKG015",
        "WGT011",
        "SRC017",
        "SRC021",
        "LIC",
        "WGT020",
    ),
)
def bound_files(pair: Pair) -> Iterator[Finding]:
    """Each file that the sidecar lists exists with its digest; metadata.json by its content without the date."""
    stated = bound(pair, "package.files")
    required = sorted(pair.layout.files)
    listed = stated if isinstance(stated, Mapping) else {}
    for path in sorted({*required, *listed}):
        if path in listed and path in required:
            yield from file_differences(pair, pair.layout.root / path, f"package.files.{path}", listed[path])
        else:
            expected, found = ("a record", "none") if path in required else ("no record", path)
            yield differing("files of the package", stated_at(pair, "package.files"), expected=expected, found=found)


@rule(
    "PKG015",
    title="asset and sidecar name each other",
    why="a sidecar copied from another pair describes another package: the asset's own metadata shows it",
    remedy="put the package's own sidecar beside it, or emit it again",
    needs=("binding", "asset"),
    after=(
        "TAP",
        "SRC016",
        "NUM007",
        "CTR008",
        "SRC020",
        "PKG008",
        "LIC005",
    ),
)
def bound_asset(pair: Pair) -> Iterator[Finding]:
    """The sidecar states the asset's name, main.hash and metadata, and the metadata the sidecar's identities."""
    asset, name = pair.asset.value, pair.layout.asset.name
    yield from must_state(pair, "package.asset", name)
    where = pair.place(asset.root / HASH_FILE)
    files = bound(pair, "package.files")
    record = files.get(f"{name}/{PROGRAM_FILE}") if isinstance(files, Mapping) else None
    stated = record.get("sha256") if isinstance(record, Mapping) else None
    if stated != asset.stated_sha256:
        message = f"stated in {stated_at(pair, f'package.files.{name}/{PROGRAM_FILE}')}"
        yield differing("digest of the program", where, expected=stated, found=asset.stated_sha256, message=message)
    yield from metadata_differences(pair)


@rule(
    "PKG016",
    title="the sidecar states the package's size",
    why="downloads plan their disk by it, and a size that is off shows another package",
    remedy="emit the package again",
    needs=("sidecar", "tree"),
)
def size(pair: Pair) -> Iterator[Finding]:
    """Mb is the bytes of the asset's files divided by 1e6, rounded."""
    prefix = f"{pair.layout.asset.name}/"
    total = sum(e.size for e in pair.tree.value if e.path.startswith(prefix) and e.kind == "file")
    expected, found = round(total / 1e6), pair.sidecar.value.get("mb")
    if not equal_json(found, expected):
        where = pair.place(pair.layout.sidecar, "mb")
        yield differing("mb of the sidecar", where, expected=expected, found=found, message=f"{total} bytes")


@rule(
    "PKG021",
    title="the sidecar's digest of the program's structure is right",
    why="with it, a reader without the emitter detects a re-wired program",
    remedy="emit the package again",
    depth="lineage",
    needs=("binding", "program"),
    after=("PKG019", "PKG018"),
)
def structure(pair: Pair) -> Iterator[Finding]:
    """trace_sha256 of the sidecar is the digest of the program's structure; minimum_os is the emitter's."""
    from forgepack.emit.sidecar_content import MINIMUM_OS

    where = pair.place(pair.layout.asset)
    yield from against(pair, "package.trace_sha256", pair.program.value.program.digest, where)
    yield from must_state(pair, "package.minimum_os", MINIMUM_OS)


@rule(
    "PKG022",
    title="no field of the sidecar was changed after the asset was written",
    fails="fields of the sidecar were changed after the asset was written",
    why="the asset carries a digest of all fields that do not depend on it, those that nothing else proves included",
    remedy="restore the sidecar from the package's source, or emit it again",
    needs=("binding", "sidecar", "asset"),
    after=("TAP", "HEAD", "VOC", "TOK", "WGT", "NUM", "SRC", "LIC", "CTR", "PKG00", "PKG015"),
)
def sidecar_digest(pair: Pair) -> Iterator[Finding]:
    """The asset's metadata states the digest of the sidecar without what depends on the asset."""
    found, expected = sidecar_digests(pair)
    if found != expected:
        where = pair.place(pair.layout.sidecar)
        yield differing("fields of the sidecar", where, expected=expected, found=found)


ROWS = (
    reported_row(
        "PKG017",
        demand=("Core AI's reader, in a process of its own and in time, reads the programs of drafter and target."),
        title="every program can be read by Core AI",
        why="a program that its own reader refuses or dies on can't be run or checked",
        remedy="restore the package from its source",
        depth="lineage",
        codes=("asset-crash", "asset-timeout", "entry-missing"),
        after=("PKG012", "PKG013"),
    ),
)
