"""SRC: checkpoint and quantized drafter are the pinned ones, and agree with their own locks and reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.verify.checks.drafter_record import drafter_record
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.files import line_ends
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule


@rule(
    "SRC001",
    title="nothing that is stated is known to be wrong or withdrawn",
    fails="a stated digest or commit is known to be wrong or withdrawn",
    why="the donor's weights have the right names and shapes: only a digest tells them apart",
    remedy="fetch the pinned checkpoint, quantize and emit again",
)
def known_bad_stated(pair: Pair) -> Iterator[Finding]:
    """No digest that lock, report, sidecar, asset or attestation states is on the lists of profile or --deny."""
    return _listed(pair, _stated_digests(pair))


@rule(
    "SRC008",
    title="no file is known to be wrong or withdrawn",
    fails="a file is known to be wrong or withdrawn",
    why="the donor's weights and withdrawn packages have the right names and shapes: only a digest tells them apart",
    remedy="fetch the pinned checkpoint; use a package that was not withdrawn",
    depth="hash",
    needs=("digests",),
    after=("SRC001",),
)
def known_bad_found(pair: Pair) -> Iterator[Finding]:
    """No file that was read is on the lists of the profile or of --deny."""
    return _listed(pair, _found_digests(pair))


def _listed(pair: Pair, digests: Iterator[tuple[str, str]]) -> Iterator[Finding]:
    lists = (pair.profile.known_bad, pair.profile.withdrawn, pair.sources.extra_files.denied)
    for where, sha256 in sorted(set(digests)):
        reason = next((reasons[sha256] for reasons in lists if sha256 in reasons), None)
        if reason is not None:
            yield differing("digest", where, expected="one that is not on a list", found=sha256, message=reason)


def _found_digests(pair: Pair) -> Iterator[tuple[str, str]]:
    for path, digest in pair.digests.value.items():
        yield pair.place(path), digest.sha256


def _stated_digests(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield every SHA-256 that names a part of the pair or a source of it, with its place."""
    if pair.lock.available:
        for number, file in enumerate(pair.lock.value.files):
            yield _lock_place(pair, f"files[{number}].sha256"), file.sha256
    if pair.quant_report.available:
        report = pair.quant_report.value
        yield pair.place(report.path, "inputs.checkpoint.model_sha256"), report.model_sha256
    if pair.binding.available:
        yield from _strings(pair.binding.value, pair.place(pair.layout.sidecar, "forgepack"))
    if pair.asset.available:
        yield pair.place(pair.asset.value.root / "main.hash"), pair.asset.value.stated_sha256
    if pair.binding.available and pair.asset.available and pair.config.available:
        yield from _strings(drafter_record(pair), "drafter")
    for attestation in pair.attestations.value if pair.attestations.available else ():
        yield from _strings(attestation.raw, attestation.name)


def _strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield every text of a digest's length in nested JSON, with its path."""
    if isinstance(value, str):
        if len(value) == 64:
            yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _strings(inner, f"{where}[{number}]")


def _lock_place(pair: Pair, part: str) -> str:
    assert pair.sources.checkpoint is not None
    return pair.place(pair.sources.checkpoint / "checkpoint.lock.json", part)


@rule(
    "SRC003",
    title="the checkpoint is of the profile's repository and commit",
    fails="the checkpoint is NOT of the profile's repository and commit",
    why="a branch moves: the same name at another commit is another drafter",
    remedy="fetch the pinned commit",
    needs=("lock",),
)
def lock_pinned(pair: Pair) -> Iterator[Finding]:
    """Repository and commit of the lock are the profile's, and it covers every file that the profile takes."""
    lock, hub = pair.lock.value, pair.profile.hub
    for key, expected, found in (("repo", hub.repo, lock.repo), ("commit", hub.commit, lock.commit)):
        if expected != found:
            yield differing(f"{key} of the checkpoint", _lock_place(pair, key), expected=expected, found=found)
    absent = sorted(set(hub.files) - {file.path for file in lock.files})
    if absent:
        yield differing("files of the lock", _lock_place(pair, "files"), expected=absent, found="nothing of them")


@rule(
    "SRC004",
    title="the checkpoint's files have the sizes of its lock",
    why="a file that was replaced or cut since it was fetched is not the pinned one",
    remedy="run forgepack fetch --force on the folder",
    needs=("lock", "checkpoint_tree"),
)
def lock_sizes(pair: Pair) -> Iterator[Finding]:
    """Every file of the lock is in the checkpoint, a regular file of the stated size."""
    entries = {entry.path: entry for entry in pair.checkpoint_tree.value}
    assert pair.sources.checkpoint is not None
    for file in pair.lock.value.files:
        entry = entries.get(file.path)
        where = pair.place(pair.sources.checkpoint / file.path)
        if entry is None:
            yield differing("file of the checkpoint", where, expected=f"{file.bytes} bytes", found="no file")
        elif entry.kind == "file" and entry.size != file.bytes:
            found, message = f"{entry.size} bytes", line_ends(pair.sources.checkpoint / file.path, file.sha256)
            expected = f"{file.bytes} bytes"
            yield differing("file of the checkpoint", where, expected=expected, found=found, message=message)


@rule(
    "SRC005",
    title="the checkpoint's files have the digests of its lock",
    fails="the checkpoint's files do NOT have the digests of its lock",
    why="wrong bytes of the right length pass every check of size and shape",
    remedy="run forgepack fetch --force on the folder",
    depth="hash",
    needs=("lock", "digests"),
    after=(
        "SRC004",
        "SRC008",
        "NUM004",
        "NUM005",
    ),
)
def lock_digests(pair: Pair) -> Iterator[Finding]:
    """The SHA-256 of every file of the lock is the stated one."""
    root = pair.sources.checkpoint
    assert root is not None
    for file in pair.lock.value.files:
        found = pair.digests.value.get(root / file.path)
        if found is not None and found.sha256 != file.sha256:
            where = pair.place(root / file.path)
            yield differing("digest of the file", where, expected=file.sha256, found=found.sha256)


@rule(
    "SRC006",
    title="the package's config.json is the checkpoint's, byte for byte",
    why="an edited config is another drafter under the same weights",
    remedy="copy config.json from the checkpoint; forgepack emit does",
    needs=("config", "checkpoint_config"),
    after=(
        "TAP",
        "VOC",
        "CTR01",
        "WGT005",
        "SRC017",
    ),
)
def config_copied(pair: Pair) -> Iterator[Finding]:
    """config.json of package and checkpoint have one SHA-256."""
    expected, found = pair.checkpoint_config.value.sha256, pair.config.value.sha256
    if expected != found:
        yield differing("config.json", pair.place(pair.config.value.path), expected=expected, found=found)


_EVIDENCE = {
    "client": "agrees with the client's record",
    "commit": "agrees with the client's commit",
    "digest": "agrees with the client's digest",
    "none": "no record",
    None: "not recorded by version 1 of the lock",
    "hub": "compared with the hub",
}


@rule(
    "SRC007",
    title="the checkpoint was compared with the hub's record",
    why="an adopted folder is locked to itself: nobody has compared its bytes with the hub's",
    remedy="fetch the checkpoint with forgepack fetch",
    severity="note",
    needs=("lock",),
)
def not_adopted(pair: Pair) -> Iterator[Finding]:
    """The lock does not say that its bytes were adopted; if it does, the message gives the client's records."""
    if pair.lock.value.adopted:
        message = "; ".join(f"{file.path}: {_EVIDENCE[file.evidence]}" for file in pair.lock.value.files)
        yield differing("lock", _lock_place(pair, "adopted"), expected=False, found=True, message=message)


ROWS = (
    reported_row(
        "SRC002",
        demand="checkpoint.lock.json of a given checkpoint is there and well formed.",
        title="the checkpoint has a valid lock",
        why="without a lock nothing says which commit the bytes are of",
        remedy="run forgepack fetch --out on the folder, or forgepack fetch --adopt for one obtained otherwise",
        codes=("lock-missing", "lock-invalid"),
    ),
)
